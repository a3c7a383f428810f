"""Nothing in a training step waits for the device (design rule 10), and losses are in float32 (rule 4).

Without a GPU on fake tensors (`fake_cuda`), in a process of their own (`on_fake_cuda`); with one, for real.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import fake_cuda
import pytest
import torch

from contracts.on_fake_cuda import NAMES, PRECISIONS, made, step


@pytest.mark.slow
@pytest.mark.skipif(torch.backends.cuda.is_built(), reason="needs a torch without CUDA, to which the shim gives it")
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_training_steps_on_fake_tensors(tmp_path: Path) -> None:
    done = fake_cuda.run(Path(__file__).with_name("on_fake_cuda.py"), tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@PRECISIONS
@pytest.mark.parametrize("name", NAMES)
def test_a_step_does_not_wait_for_a_gpu(name: str, precision: str, teacher: str) -> None:
    module, batch = made(name, teacher)
    module, batch = module.cuda(), fake_cuda.on_cuda(batch, lambda x: x.cuda())
    module._checked, module._log_every = True, 1  # the first step reads the loss
    optimizer = module.optimizer([p for p in module.parameters() if p.requires_grad])
    step(module, batch, optimizer, 0, precision)  # loads kernels
    torch.cuda.set_sync_debug_mode("error")
    try:
        step(module, batch, optimizer, 1, precision)
    finally:
        torch.cuda.set_sync_debug_mode("default")
