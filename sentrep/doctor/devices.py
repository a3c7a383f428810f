"""What there is to compute on, against what the configuration asks for."""

from __future__ import annotations

import torch

from sentrep.doctor.outcome import Outcome
from sentrep.doctor.subject import Subject

_REMEDY = "set trainer.accelerator, trainer.devices and trainer.precision to what this machine has"


def check(subject: Subject) -> Outcome:
    """Accelerator, number of devices and precision of the configuration exist here."""
    cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    mps = torch.backends.mps.is_available()
    bf16 = torch.cuda.is_bf16_supported() if cuda else not mps
    names = [torch.cuda.get_device_name(number) for number in range(cuda)] + ["mps"] * mps
    measured = f"{', '.join([*names, f'cpu with {torch.get_num_threads()} threads'])}; bf16 {'yes' if bf16 else 'no'}"
    accelerator, devices = subject.trainer.get("accelerator", "auto"), subject.trainer.get("devices", "auto")
    there = {"cuda": cuda, "gpu": cuda or int(mps), "mps": int(mps)}.get(str(accelerator), 1)
    wrong = []
    if there == 0:
        wrong.append(f"no accelerator '{accelerator}'")
    elif accelerator in ("cuda", "gpu", "mps") and isinstance(devices, int) and devices > there:
        wrong.append(f"{devices} devices wanted, {there} there")
    if str(subject.trainer.get("precision", "")).startswith("bf16") and not bf16:
        wrong.append("no bf16")
    return Outcome("devices", not wrong, "; ".join([*wrong, measured]), "what trainer asks for", _REMEDY)
