"""The precision that ``sentrep fit`` trains in where nobody names one."""

from __future__ import annotations

from typing import Any

import torch
from jsonargparse import Namespace

from sentrep.cli.log import say
from sentrep.cli.recipe import Tree
from sentrep.training.exact_resume import RECORD

_CHANGE = "name another by --trainer.precision"


def settle_precision(trainer: Namespace, checkpoint: Tree | None) -> dict[str, Any]:
    """Arguments for the Trainer beside its section; empty if the section names a precision.

    A resumed run continues in the precision of its checkpoint. Otherwise a CUDA device computes in bf16-mixed where it
    has bfloat16, and any other device in float32. On CUDA, products in float32 may use TF32. The saved configuration
    still names no precision, so that another machine chooses its own.

    Args:
        trainer: the section of the configuration.
        checkpoint: the content of the one that the run goes on from, or None.
    """
    if trainer.precision is not None or trainer.plugins:
        if "bf16" in str(trainer.precision) and not _on_cuda(trainer):
            warn_of_slow_bf16()
        if str(trainer.precision) in ("32", "32-true") and _on_cuda(trainer):
            _allow_tf32()
        return {}
    default = _of_device(trainer)
    record = (checkpoint or {}).get(RECORD)
    if isinstance(record, dict):  # anything else is refused where the settings are compared
        saved = record["trainer.precision"]
        if saved != (default or "32-true"):
            say(f"trainer.precision is not set: {saved}, as in the checkpoint; {_CHANGE}")
        return {"precision": saved}
    if default is not None:
        say(f"trainer.precision is not set: {default}, which this GPU computes faster than float32; {_CHANGE}")
    elif _on_cuda(trainer):
        say(f"trainer.precision is not set: float32, as this GPU has no bfloat16; {_CHANGE}")
        _allow_tf32()
    return {} if default is None else {"precision": default}


def _allow_tf32() -> None:
    """Let float32 products of linear layers use TF32, which has bfloat16's speed and more digits."""
    torch.set_float32_matmul_precision("high")
    say("float32 products may use TF32 on this GPU; the environment variable NVIDIA_TF32_OVERRIDE=0 turns it off")


def cpu_has_bf16() -> bool:
    """Whether the CPU multiplies bfloat16 by itself; without that, bf16-mixed costs time instead of saving it."""
    able: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # not in every torch
    return bool(able.get("avx512_bf16") or able.get("amx_bf16"))


def warn_of_slow_bf16() -> None:
    """Say that this CPU emulates bfloat16, where it is known to (x86 without its instructions)."""
    able: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    if able.get("architecture") == "x86_64" and not cpu_has_bf16():
        say("this processor has no instructions for bfloat16: bf16 takes 8 to 10 times as long as float32")


def has_bf16(device: torch.device) -> bool:
    """Whether a device multiplies bfloat16 by itself."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and cpu_has_bf16()


def _of_device(trainer: Namespace) -> str | None:
    return "bf16-mixed" if _on_cuda(trainer) and has_bf16(torch.device("cuda")) else None


def _on_cuda(trainer: Namespace) -> bool:
    """Forked processes need an unused CUDA; a query of the GPU would initialise it."""
    forks = "fork" in str(trainer.strategy)
    return not forks and trainer.accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()
