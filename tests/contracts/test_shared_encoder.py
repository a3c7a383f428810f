"""An encoder and an objective's class that several users share: each trains as it would alone."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sentrep import Objective, SentRepModule
from sentrep.encoder import Prompt
from sentrep.encoder.encode import encode
from sentrep.negatives import GaussianNegatives
from sentrep.objectives import (
    Contrastive,
    Denoising,
    InformationReconstruction,
    MaskedLanguageModeling,
    MomentumContrast,
)
from support import quiet_trainer, text_batch, tiny_encoder, toy_data, toy_sentences


def terms(name: str) -> dict[str, Objective | None]:
    """Objectives that read vectors, tokens' states, a layer, or a second encoder."""
    return {
        "vectors": {"simcse": Contrastive()},
        "tokens": {"denoising": Denoising(layers=1, heads=2, noise=0.0)},
        "copy": {"moco": MomentumContrast(), "noise": Contrastive(negatives={"noise": GaussianNegatives()})},
        "layer": {"reconstruction": InformationReconstruction(heads=2), "simcse": Contrastive(temperature=0.1)},
    }[name]  # type: ignore[return-value]


def step(module: SentRepModule) -> tuple[Tensor, list[Tensor | None]]:
    """Loss of one training step with dropout, and the gradients of what is trained."""
    module.zero_grad()
    loss = module.compute_terms(text_batch(module.encoder, toy_sentences(9)), 0).loss
    loss.backward()
    return loss.detach(), [parameter.grad for parameter in module.parameters()]


def alone(name: str) -> tuple[Tensor, list[Tensor | None]]:
    return step(SentRepModule(tiny_encoder(dropout=0.1), terms(name), seed=1))


def test_two_modules_train_one_encoder_as_each_would_alone() -> None:
    encoder = tiny_encoder(dropout=0.1)
    modules = {name: SentRepModule(encoder, terms(name), seed=1) for name in ("layer", "tokens", "vectors")}
    for name in ("vectors", "tokens", "layer", "vectors"):
        torch.testing.assert_close(step(modules[name]), alone(name), rtol=0, atol=0)


def test_one_objective_class_in_two_modules_trains_as_it_would_alone() -> None:
    modules = [SentRepModule(tiny_encoder(dropout=0.1), terms("copy"), seed=1) for _ in range(2)]
    for module in (*modules, *modules):
        torch.testing.assert_close(step(module), alone("copy"), rtol=0, atol=0)


def pickled(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickled])
@pytest.mark.parametrize("name", ["tokens", "layer", "copy", "masks"])
def test_a_duplicate_of_a_fitted_module_goes_on_as_the_original(name: str, duplicate: Callable[[Any], Any]) -> None:
    """transformers leaves hooks in a backbone whose layers were read."""
    objectives = {"mlm": MaskedLanguageModeling(), "simcse": Contrastive()} if name == "masks" else terms(name)
    module = SentRepModule(tiny_encoder(dropout=0.1), objectives, seed=1)
    quiet_trainer(max_steps=2).fit(module, toy_data())
    vectors = module.encoder.encode(toy_sentences(9))
    np.testing.assert_array_equal(duplicate(module.encoder).encode(toy_sentences(9)), vectors)
    other = duplicate(module.train())
    torch.testing.assert_close(step(other), step(module), rtol=0, atol=0)
    torch.testing.assert_close(step(duplicate(other)), step(module), rtol=0, atol=0)


HOW: list[dict[str, Any]] = [
    {},
    {"pooling": "mean_first_last"},
    {"pooling": "mask", "prompt": Prompt('"[X]" means [MASK].', subtract=True)},
]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickled])
def test_a_duplicate_of_an_encoder_gives_its_vectors(how: dict[str, Any], duplicate: Callable[[Any], Any]) -> None:
    encoder = tiny_encoder(**how).eval()
    for _ in range(2):  # before and after a pass
        assert np.array_equal(duplicate(encoder).encode(toy_sentences(9)), encoder.encode(toy_sentences(9)))


@pytest.mark.parametrize("how", HOW)
def test_eight_threads_at_once_get_the_vectors_of_one(how: dict[str, Any]) -> None:
    encoder = tiny_encoder(**how).eval()
    texts = [toy_sentences(40)[k : k + 3 + k] for k in range(16)]
    expected = [encoder.encode(part) for part in texts]
    with ThreadPoolExecutor(8) as threads:
        for found in (list(threads.map(encoder.encode, texts)) for _ in range(3)):
            assert all(map(np.array_equal, found, expected))


class Waiting(list[str]):
    """Sentences that are read only when `go` is set."""

    def __init__(self, sentences: list[str]) -> None:
        super().__init__(sentences)
        self.asked, self.go = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[str]:
        self.asked.set()
        self.go.wait(60)
        return super().__iter__()


@pytest.mark.parametrize("name", ["vectors", "tokens"])
def test_a_thread_that_encodes_leaves_a_training_step_as_it_is(name: str) -> None:
    module = SentRepModule(tiny_encoder(dropout=0.1), terms(name), seed=1)
    sentences = Waiting(toy_sentences(3))
    with ThreadPoolExecutor(1) as thread:
        vectors = thread.submit(encode, module.encoder, sentences, 32, False)
        assert sentences.asked.wait(60)
        try:
            found = step(module)
        finally:
            sentences.go.set()
    torch.testing.assert_close(found, alone(name), rtol=0, atol=0)
    assert module.encoder.training
    np.testing.assert_array_equal(vectors.result(), module.encoder.eval().encode(toy_sentences(3)))
