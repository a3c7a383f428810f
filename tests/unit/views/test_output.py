"""Views whose positive is a perturbed copy of the anchor's vector."""

from __future__ import annotations

import pytest
import torch

from references.info_nce import info_nce_loop
from references.perturbations import fgsm_loop
from sentrep import InputError, ProjectionHead, SentenceEncoder
from sentrep.views import FGSM, BatchGaussianNoise, BernoulliDropout, FeatureMask, OutputPerturbedViews, Perturbation
from support import text_batch, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(12)
TABLE_2 = [
    BatchGaussianNoise(),
    BernoulliDropout(0.1),
    FeatureMask("trivial", 0.1),
    FeatureMask("significant", 0.1),
    FGSM(0.01),
]


@pytest.mark.parametrize("perturbation", TABLE_2, ids=lambda p: type(p).__name__)
def test_one_pass_and_a_positive_that_differs(perturbation: Perturbation) -> None:
    encoder = tiny_encoder(dropout=0.0)
    encoder.attach_head(ProjectionHead("mlp"))
    passes = []
    encoder.register_forward_hook(lambda *_: passes.append(1))
    batch = text_batch(encoder, SENTENCES[:8])
    more = text_batch(encoder, SENTENCES[8:11]).anchor
    maker = OutputPerturbedViews(perturbation)
    views = maker(encoder, batch, {"more": more})
    assert len(passes) == 1
    torch.testing.assert_close(views.anchor, encoder.project(encoder(batch.anchor).embedding), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(views.extra["more"].embedding, encoder(more).embedding, rtol=1e-4, atol=1e-6)
    assert (views.positive != views.anchor).any(-1).all()
    assert views.negative is None
    assert views.second is None, "every sentence is encoded once"


def test_the_perturbation_comes_after_the_head() -> None:
    encoder = tiny_encoder(dropout=0.0)
    encoder.attach_head(ProjectionHead("mlp"))
    views = OutputPerturbedViews(FeatureMask("significant", 0.25))(encoder, text_batch(encoder, SENTENCES[:8]), {})
    assert torch.equal(views.positive == 0, views.anchor.abs() >= views.anchor.abs().topk(8).values[:, -1:])


@pytest.mark.parametrize("descend", [False, True])
def test_fgsm_attacks_the_contrast_with_the_anchors(descend: bool) -> None:
    """Its sign is found by finite differences."""
    encoder = tiny_encoder(dropout=0.0).double()
    views = OutputPerturbedViews(FGSM(0.01, 0.5, descend))(encoder, text_batch(encoder, SENTENCES[:2]), {})
    anchor = views.anchor.detach()
    step = -0.01 if descend else 0.01
    expected = fgsm_loop(anchor, lambda x: info_nce_loop(anchor, x, 0.5, [0, 1], None, None, 1.0, 0.0), step)
    torch.testing.assert_close(views.positive.detach(), expected, rtol=0, atol=1e-9)


def test_a_corpus_with_positives_is_refused(encoder: SentenceEncoder) -> None:
    batch = text_batch(encoder, SENTENCES[:4], SENTENCES[4:8])
    with pytest.raises(InputError, match=r"one column in data\.columns"):
        OutputPerturbedViews(BernoulliDropout())(encoder, batch, {})
