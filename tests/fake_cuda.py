"""CUDA tensors without a GPU, and a watch over what is done with them.

A fake tensor (torch's `FakeTensorMode`) has a shape, a type and a device, and no data: whatever asks for its values
raises. A torch that was built without CUDA wants three things more, all in this file:

- `SHIM`, through the public C++ interfaces for a device: a guard that does nothing, generators, and the word that
  there is a device, without which autograd runs nothing on it. torch asks for the last when it is imported, so that
  only a new process can have it (`run`).
- `pretend`: what else asks a driver gets an answer, and attention takes the kernel that it takes on a GPU.
- `to_fake_cuda`: ``module.to("cuda")``, which torch does not do for fake tensors.
"""

from __future__ import annotations

import contextlib
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import sentrep
from sentrep import TextBatch, TokenBatch
from sentrep.encoder.frozen_encoder import FrozenEncoder

SHIM = """
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace at {
struct FakeGenerator : CPUGeneratorImpl {
  FakeGenerator() { device_ = Device(kCUDA, 0); }
};
struct CUDAHooks : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  bool isBuilt() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  Generator getNewGenerator(DeviceIndex) const override { return make_generator<FakeGenerator>(); }
};
REGISTER_CUDA_HOOKS(CUDAHooks)
}

namespace c10::impl {
struct FakeGuard : NoOpDeviceGuardImpl<DeviceType::CUDA> {
  Stream getStream(Device) const noexcept override { return Stream(Stream::DEFAULT, Device(DeviceType::CUDA, 0)); }
};
FakeGuard guard;
DeviceGuardImplRegistrar registrar(DeviceType::CUDA, &guard);
}
"""

START = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); import pytest; sys.exit(pytest.main(sys.argv[2:]))"

SENTREP = Path(sentrep.__file__).parent
LAYERS = Path(nn.__file__).parent / "modules"
IN_FLOAT32 = ("functional", "objectives", "negatives", "weighting")
"""Folders of sentrep whose products are of similarities or in losses."""
LOSSES = {"_softmax", "_log_softmax", "logsumexp", "logaddexp", "nll_loss_forward", "mse_loss", "huber_loss",
          "binary_cross_entropy_with_logits", "linalg_vector_norm"}  # fmt: skip
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "addmv", "dot"}
NO_KERNEL = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "detach", "lift_fresh",
             "_unsafe_view"}  # fmt: skip


def run(tests: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a file of tests in a process whose torch knows a device ``cuda``."""
    source, library, home = folder / "shim.cpp", folder / "shim.so", Path(torch.__file__).parent
    source.write_text(SHIM)
    where = [f"-I{home}/include", f"-L{home}/lib", f"-Wl,-rpath,{home}/lib", "-ltorch_cpu", "-lc10"]
    subprocess.run(["g++", "-std=c++20", "-shared", "-fPIC", source, "-o", library, *where], check=True)
    command = [sys.executable, "-c", START, library, tests, "-p", "no:cacheprovider", "-q", "--tb=short"]
    return subprocess.run([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@contextlib.contextmanager
def pretend() -> Iterator[None]:
    """Answer for the driver that is not there."""
    with contextlib.ExitStack() as stack:
        for owner, name, new in (
            (torch.cuda.amp.common, "amp_definitely_not_available", lambda: False),  # autocast
            (torch.cuda, "is_bf16_supported", lambda *_: True),
            (torch.cuda, "get_rng_state", lambda *_: torch.get_rng_state()),
            (torch.cuda, "set_rng_state", lambda *_: None),
            (torch.cuda, "device", contextlib.nullcontext),
            (Tensor, "pin_memory", lambda self, *_: self),
            (F, "scaled_dot_product_attention", _attention),
            (torch.utils._foreach_utils, "_foreach_supported_types", [Tensor, nn.Parameter, FakeTensor]),  # norms
        ):
            stack.enter_context(patch.object(owner, name, new))
        stack.enter_context(patch.object(FakeTensor, "__deepcopy__", lambda self, _: self.clone(), create=True))
        yield


def _attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """What torch does on a GPU that is given a mask: the mask becomes a bias, then one kernel."""
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            zero = torch.zeros((), dtype=query.dtype, device=query.device)
            attn_mask = torch.where(attn_mask.logical_not(), float("-inf"), zero)
        attn_mask = attn_mask.expand(*query.shape[:3], key.shape[2])
    kernel = torch.ops.aten._scaled_dot_product_efficient_attention
    found: Tensor = kernel(query, key, value, attn_mask, torch.is_grad_enabled(), dropout_p, is_causal, scale=scale)[0]
    return found


def to_fake_cuda(module: nn.Module, mode: FakeTensorMode) -> None:
    """Give every parameter and buffer a fake one of its shape on the device; teachers, which are no modules, too."""
    made: dict[int, Tensor] = {}
    for part in list(module.modules()):
        for name, tensor in [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]:
            if id(tensor) not in made:
                with mode:
                    new = torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")
                    is_parameter = isinstance(tensor, nn.Parameter)
                    made[id(tensor)] = nn.Parameter(new, tensor.requires_grad) if is_parameter else new
            setattr(part, name, made[id(tensor)])
        for held in list(vars(part).values()):
            if isinstance(held, FrozenEncoder):
                to_fake_cuda(held.load(), mode)


def on_cuda(batch: TextBatch, move: Callable[[Tensor], Tensor]) -> TextBatch:
    """A batch whose tensors were moved."""

    def moved(x: Any) -> Any:
        if isinstance(x, (TextBatch, TokenBatch)):
            return type(x)(*(moved(getattr(x, field.name)) for field in fields(x)))
        return move(x) if isinstance(x, Tensor) else x

    found: TextBatch = moved(batch)
    return found


def fake_batch(batch: TextBatch, mode: FakeTensorMode) -> TextBatch:
    """The shapes of a batch, on the device."""
    with mode:
        return on_cuda(batch, lambda x: torch.empty(x.shape, dtype=x.dtype, device="cuda"))


class Watch(TorchDispatchMode):
    """Fails where the host would wait for the device (beside fake tensors' own refusals), and where a loss is in half.

    Attributes:
        launched: name of every operation that starts a kernel, at least one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.launched: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """See `TorchDispatchMode`."""
        name = function.overloadpacket.__name__
        found = list(_tensors([*args, *(kwargs or {}).values()]))
        out = function(*args, **(kwargs or {}))
        if name in ("_to_copy", "copy_"):
            devices = {x.device.type for x in (*found, *_tensors([out]))}
            waits = len(devices) > 1 and not _says_non_blocking(function, args, kwargs or {})
            assert not waits, f"{name} between the host and the device: it waits"
        else:
            devices = {x.device.type for x in found if x.dim()}
            assert len(devices) < 2, f"{name} of tensors on the host and on the device: they are copied, and it waits"
        if name in LOSSES or (name in PRODUCTS and _folder() in IN_FLOAT32):
            half = {x.dtype for x in found} & {torch.bfloat16, torch.float16}
            assert not half, f"{name} of {half} where it has to be float32"
        if function.namespace == "aten" and not function.is_view and name not in NO_KERNEL:
            self.launched.append(name)
        return out


def _says_non_blocking(function: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    names = [argument.name for argument in function._schema.arguments]
    return bool({**dict(zip(names, args, strict=False)), **kwargs}.get("non_blocking"))


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _tensors(value)
        elif isinstance(value, Tensor):
            yield value


def _folder() -> str:
    """Of the innermost file of sentrep that is being run; none within a layer of torch's."""
    frame = inspect.currentframe()
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(SENTREP):
            return path.relative_to(SENTREP).parts[0]
        if path.is_relative_to(LAYERS):
            return ""
        frame = frame.f_back
    return ""
