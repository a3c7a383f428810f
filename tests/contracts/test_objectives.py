"""What every objective promises, by the tester that authors of plug-ins have."""

from __future__ import annotations

import pytest
from plugins import behind, objectives
from samplers import KINDS

from sentrep.testing import check_objective
from support import tiny_encoder

NAMES = [name for name in objectives("") if name.removeprefix("contrastive, ") not in KINDS]


ASKS_A_CPU = {"denoising", "tsdae", "local and global"}
"""They wait for a CPU, which costs nothing, and not for a GPU (`tests/contracts/test_fake_cuda.py`)."""


@pytest.mark.parametrize("name", NAMES)
def test_an_objective_keeps_its_promises(name: str, teacher: str) -> None:
    """`contracts/test_every_plugin.py` compares them on several processes, with draws that are equal for every row."""
    encoder = tiny_encoder(dropout=0.0, modules=behind(name))
    skip = ["processes", "waits"] if name in ASKS_A_CPU else ["processes"]
    check_objective(objectives(teacher)[name], encoder=encoder, skip=skip)
