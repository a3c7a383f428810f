"""What every objective promises, by the tester that authors of plug-ins have."""

from __future__ import annotations

import pytest
from plugins import behind, objectives
from samplers import KINDS

from sentrep import InputError, SentRepModule
from sentrep.testing import check_objective
from support import text_batch, tiny_encoder, toy_sentences

NAMES = [name for name in objectives("") if name.removeprefix("contrastive, ") not in KINDS]


ASKS_A_CPU = {"denoising", "tsdae", "local and global"}
"""They wait for a CPU, which costs nothing, and not for a GPU (`tests/contracts/test_fake_cuda.py`)."""


VARIANTS = [
    "contrastive, hardest", "hard negatives, in blocks", "no batch", "nt-xent, noise", "distillation, two teachers",
    "tsdae", "mlm, both copies",
]  # fmt: skip
"""Further ways of an objective that is tested in one way by default."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in VARIANTS else name for name in NAMES]
)
def test_an_objective_keeps_its_promises(name: str, teacher: str) -> None:
    """`contracts/test_every_plugin.py` compares them on several processes, with draws that are equal for every row."""
    encoder = tiny_encoder(dropout=0.0, modules=behind(name))
    skip = ["processes", "waits"] if name in ASKS_A_CPU else ["processes"]
    check_objective(objectives(teacher)[name], encoder=encoder, skip=skip)


OTHERS = [
    "contrastive", "nt-xent", "angular margin", "self-weighting", "uncertainty", "contrastive, bank",
    "distillation", "contrastive tension", "uniformity", "layers", "local and global",
]  # fmt: skip
"""They compare a sentence with another one of the batch."""
OWN_LEFT_OUT = ["distillation, two teachers", "ranking consistency"]
"""They compare lists of similarities with other sentences, which two sentences do not have."""


@pytest.mark.parametrize(("name", "rows"), [*((name, 1) for name in OTHERS), *((name, 2) for name in OWN_LEFT_OUT)])
def test_a_batch_without_other_sentences_is_refused(name: str, rows: int, teacher: str) -> None:
    module = SentRepModule(tiny_encoder(modules=behind(name)), {"term": objectives(teacher)[name]()})
    with pytest.raises(InputError, match=r"batch of (one|two) sentences? .*raise data\.batch_size"):
        module.compute_terms(text_batch(module.encoder, toy_sentences(rows)), 0)
