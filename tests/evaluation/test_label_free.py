"""Criteria without labels: against slow references, from the same masks everywhere, leaving no trace."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sentrep import InputError, ProjectionHead
from sentrep.encoder import Dense, Normalize
from sentrep.evaluation.label_free import CRITERIA, dropout_views, label_free_criteria
from sentrep.functional import alignment, effective_rank, uniformity
from support import run_processes, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(70)


def ids_of(encoder: object) -> list[list[int]]:
    return encoder.tokenize(SENTENCES, 16)[0]  # type: ignore[attr-defined]


def test_the_criteria_are_those_of_the_two_views() -> None:
    encoder = tiny_encoder(dropout=0.2, pooling="mean")
    ids = ids_of(encoder)
    first, second = dropout_views(encoder, ids)
    nearest = [max(range(len(ids)), key=lambda j: float(torch.cosine_similarity(a, second[j], dim=0))) for a in first]
    found = label_free_criteria(encoder, ids)
    assert found == pytest.approx(
        {
            "retrieval@1": 100 * sum(i == j for i, j in enumerate(nearest)) / len(ids),
            "alignment": float(alignment(first, second)),
            "uniformity": float(uniformity(first)),
            "alignment+uniformity": float(alignment(first, second) + uniformity(first)),
            "effective_rank": float(effective_rank(first)),
        },
        rel=1e-5,
    )
    assert list(found) == list(CRITERIA)
    assert 0 < found["retrieval@1"] < 100


def test_the_views_differ_and_do_not_depend_on_what_was_drawn_before() -> None:
    encoder = tiny_encoder(dropout=0.1)
    ids = ids_of(encoder)
    torch.manual_seed(1)
    first, second = dropout_views(encoder, ids)
    after = torch.rand(3)
    assert not torch.allclose(first, second)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(3), after)  # undisturbed
    again = dropout_views(encoder.eval(), ids)
    assert torch.equal(again[0], first)
    assert torch.equal(again[1], second)
    assert not encoder.training  # as it was


def test_the_vectors_are_those_that_encode_gives_apart_from_dropout() -> None:
    for modules in ([], [Dense(out_features=8), Normalize()]):
        encoder = tiny_encoder(dropout=1e-7, pooling="mean", max_seq_length=16, modules=modules)
        encoder.attach_head(ProjectionHead(out_features=8))
        expected = encoder.encode(SENTENCES, convert_to_tensor=True)
        for view in dropout_views(encoder, ids_of(encoder)):
            torch.testing.assert_close(view, expected, rtol=0, atol=1e-4)


def test_without_dropout_there_are_no_two_views() -> None:
    encoder = tiny_encoder(dropout=0.0)
    with pytest.raises(InputError, match=r"set model\.encoder\.dropout"):
        label_free_criteria(encoder, ids_of(encoder))


def shared_views() -> tuple[Tensor, Tensor]:
    encoder = tiny_encoder(dropout=0.1)
    ids = [encoder.tokenize([sentence], 16)[0][0] for sentence in toy_sentences(300)]  # several batches
    return dropout_views(encoder, ids, shared=True)


def test_two_processes_give_the_vectors_of_one_to_the_bit() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the processes
    try:
        wanted = shared_views()
    finally:
        torch.set_num_threads(threads)
    for found in run_processes(shared_views, 2):
        assert torch.equal(found[0], wanted[0])
        assert torch.equal(found[1], wanted[1])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_draws_on_a_gpu_are_ones_own_too() -> None:
    encoder = tiny_encoder(dropout=0.1).cuda()
    torch.manual_seed(1)
    first, _ = dropout_views(encoder, ids_of(encoder))
    after = torch.rand(3, device="cuda")
    torch.manual_seed(1)
    assert torch.equal(torch.rand(3, device="cuda"), after)
    assert torch.equal(dropout_views(encoder, ids_of(encoder))[0], first)
