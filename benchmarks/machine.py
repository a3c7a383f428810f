"""The machine under a benchmark: what it is, its memory, its clock, and how fast it multiplies matrices."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import time
from pathlib import Path
from typing import Any

_LIBRARIES = ("torch", "lightning", "transformers", "tokenizers", "sentence-transformers", "datasets")
_MATRIX = {"cpu": 1024, "cuda": 8192}
"""Side of the matrices whose product is timed: large enough to fill the device."""


def memory_mib(field: str = "VmRSS") -> float:
    """A memory field of this process from /proc (Linux): ``VmRSS`` now, ``VmHWM`` the largest so far, in MiB."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {field}; this benchmark needs Linux")


def forget_peak(device: str) -> None:
    """From now on `peak_mib` is the largest since now, where the system can do that."""
    if device == "cuda":
        import torch

        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    else:
        with contextlib.suppress(OSError):  # else a process's peak is that of all it ever did
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def used_mib(device: str) -> float:
    """Memory in use now: tensors on the GPU, or the resident set of the process."""
    if device != "cuda":
        return memory_mib("VmRSS")
    import torch

    return torch.cuda.memory_allocated() / 2**20


def peak_mib(device: str) -> float:
    """The largest memory so far: tensors on the GPU, or the resident set of the process, libraries included."""
    if device != "cuda":
        return memory_mib("VmHWM")
    import torch

    return torch.cuda.max_memory_allocated() / 2**20


def now(device: str) -> float:
    """Seconds on a clock, once the device has done all that it was given."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def autocast(device: str, precision: str) -> Any:
    """The context of a precision, ``fp32`` or ``bf16``."""
    import torch

    return torch.autocast(device, torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()


def matmul_peak(device: str, precision: str, size: int | None = None, repeats: int = 5) -> float:
    """FLOP/s of a product of two square matrices: 2 n³ ÷ the least seconds, after two products that are not counted.

    float32 is what torch does by default, without TF32.
    """
    import torch

    n = size or _MATRIX[device]
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
    seconds = []
    for _ in range(repeats + 2):
        start = now(device)
        a @ b
        seconds.append(now(device) - start)
    return 2 * n**3 / min(seconds[2:])


def environment(device: str, threads: int | None) -> dict[str, Any]:
    """The machine and the libraries, with the load at the start: above about 0.5 the numbers are not to be trusted."""
    from sentrep import __version__

    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    return {
        "device": _gpu() if device == "cuda" else "cpu",
        "cpu": cpu,
        "cores": os.cpu_count(),
        "threads": threads,
        "load_at_start": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **{name: _version(name) for name in _LIBRARIES},
        "sentrep": __version__,
    }


def _gpu() -> str:
    import torch

    properties = torch.cuda.get_device_properties(0)
    return f"{properties.name} ({properties.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda})"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
