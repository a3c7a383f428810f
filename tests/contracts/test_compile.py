"""`Compute.compile`: the eager loss and gradient, from graphs that are made once.

All but one of these tests give torch a compiler that runs the traced graphs as they are: what is traced, when, and what
goes in and out is then torch's own, without minutes of C++.
"""

from __future__ import annotations

import copy
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, fx

from sentrep import InputError, Objective, SentenceEncoder, SentRepModule
from sentrep.encoder import POOLINGS, Compute, ConvolutionalPooling, Dense, Normalize, Prompt
from sentrep.encoder.compute import compiled, recompute
from sentrep.encoder.encode import pad
from sentrep.objectives import Contrastive
from sentrep.types import Need, TokenBatch
from sentrep.views import FGSM, EncodedViews, GaussianNoise, WordRepetition
from support import (
    FAMILIES,
    assert_resumes,
    loss_and_gradients,
    quiet_trainer,
    text_batch,
    tiny_encoder,
    toy_data,
    toy_sentences,
)

SENTENCES = toy_sentences(36)
Result = tuple[Tensor, dict[str, Tensor]]


@pytest.fixture
def graphs(tracer: None) -> Iterator[list[fx.GraphModule]]:
    """Every graph that was traced."""
    traced: list[fx.GraphModule] = []

    def keep(graph: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        traced.append(graph)
        return graph.forward

    torch.compiler.reset()
    with torch.compiler.set_stance("default", force_backend=keep):
        yield traced
    torch.compiler.reset()


def result(made: list[Objective], compile: bool, family: str = "bert", **arguments: Any) -> Result:
    """Loss and gradients, in float64."""
    views = arguments.pop("views", None)
    encoder = tiny_encoder(family, **{"dropout": 0.0, "pooling": "mean", "compile": compile, **arguments})
    module = SentRepModule(encoder, made, views=views)
    batch = text_batch(encoder, SENTENCES[:12], SENTENCES[12:24], SENTENCES[24:])
    torch.manual_seed(5)
    return loss_and_gradients(module, batch)


@pytest.mark.parametrize("family", FAMILIES)
def test_loss_and_gradient_are_the_eager_ones(family: str, graphs: list[fx.GraphModule]) -> None:
    eager, fast = (result([Contrastive()], compile, family=family) for compile in (False, True))
    torch.testing.assert_close(fast, eager, rtol=0, atol=1e-10)
    assert graphs


@pytest.mark.parametrize("layers", [2, 6])
def test_all_layers_share_one_program(layers: int, graphs: list[fx.GraphModule]) -> None:
    config = {**FAMILIES["bert"], "num_hidden_layers": layers}
    encoder = SentenceEncoder(config, tokenizer="toy", dropout=0.0, compute=Compute(compile=True), pooling="mean")
    module = SentRepModule(encoder, [Contrastive()])
    loss_and_gradients(module, text_batch(encoder, SENTENCES[:12], SENTENCES[12:24]))
    assert len(graphs) == 3  # a layer in training, a layer in the comparison with eager, and the objective


FEW = ("cls", "mask", "mean_embedding_last")
"""Poolings of the last layer, of a prompt, and of several layers."""


def breaks() -> Iterator[Any]:
    """Family, pooling and mode: every family, every pooling of BERT, and the other mode once.

    The pooling lies behind the compiled layers, and the tracer is the same in both modes.
    """
    for family in sorted(FAMILIES.keys() - {"bert"}):
        yield pytest.param(family, "cls", True, marks=[] if family == "modernbert" else pytest.mark.slow)
    for pooling in sorted(POOLINGS):
        yield pytest.param("bert", pooling, True, marks=[] if pooling in FEW else pytest.mark.slow)
    yield "bert", "cls", "reduce-overhead"


def break_graphs(encoder: SentenceEncoder) -> None:
    """Put a graph break into every layer: on some devices, graphs break where nobody expects it."""
    for layer in compiled.layers_of(encoder.backbone):
        linear = next(module for module in layer.modules() if isinstance(module, torch.nn.Linear))
        linear.forward = torch.compiler.disable(linear.forward)  # type: ignore[method-assign]


@pytest.mark.parametrize(("family", "pooling", "mode"), list(breaks()))
def test_a_graph_break_within_the_pass_changes_nothing(
    family: str, pooling: str, mode: Any, graphs: list[fx.GraphModule]
) -> None:
    prompt = Prompt('"[X]" means [MASK].', subtract=True) if pooling == "mask" else None
    vectors = []
    for compile in (False, mode):
        encoder = tiny_encoder(family, dropout=0.0, compile=compile, pooling=pooling, prompt=prompt).double()
        if compile:
            break_graphs(encoder)
        tokens = text_batch(encoder, SENTENCES[:12]).anchor
        trained = encoder(tokens, need=Need(tokens=False)).embedding
        gradient = torch.autograd.grad(
            trained.sin().sum(), encoder.backbone.get_input_embeddings().get_parameter("weight")
        )[0]
        vectors.append([trained, encoder(tokens).embedding, gradient, torch.tensor(encoder.encode(SENTENCES[:12]))])
    torch.testing.assert_close(vectors[1], vectors[0], rtol=0, atol=1e-9)
    assert graphs


@pytest.mark.slow
@pytest.mark.parametrize(("part", "layout"), [("encoder", "auto"), ("layer", "padded")])
def test_what_users_compile_themselves_may_have_a_graph_break_too(
    part: str, layout: Any, graphs: list[fx.GraphModule]
) -> None:
    eager, fast = (tiny_encoder(dropout=0.0, layout=layout) for _ in range(2))
    break_graphs(fast)
    {"encoder": fast, "layer": fast.backbone.encoder.layer[-1]}[part].compile()
    tokens = text_batch(eager, SENTENCES[:6]).anchor
    for need in (Need(tokens=False), Need(layers=(1,))):
        found, expected = (encoder(tokens, need=need).embedding for encoder in (fast, eager))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert graphs


def test_compiled_layers_that_compute_something_else_are_refused(graphs: list[fx.GraphModule]) -> None:
    encoder = tiny_encoder(compile=True, pooling="mean")

    def wrong(graph: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        return lambda *arguments: tuple(1.5 * x if x.is_floating_point() else x for x in graph(*arguments))

    tokens = text_batch(encoder, SENTENCES[:12]).anchor
    backend = torch.compiler.set_stance("default", force_backend=wrong)
    with backend, pytest.raises(InputError, match="compiled vectors differ from uncompiled ones"):
        encoder(tokens)


PROMPTED: dict[str, Any] = {"prompt": Prompt('"[X]" means [MASK].', subtract=True), "pooling": "mask"}
WAYS: dict[str, dict[str, Any]] = {
    "perturbed": {"views": EncodedViews([GaussianNoise(), FGSM()])},
    "rows at once": {"rows_at_once": 7},
    "modules": {"modules": [Dense("tanh"), Normalize()]},
    "convolutions, rows at once": {"modules": [ConvolutionalPooling()], "rows_at_once": 7},
    "prompt": PROMPTED,
    "two prompts": {"views": EncodedViews([WordRepetition()], positive_prompt="[X] is a [MASK]."), **PROMPTED},
}


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_run_the_encoder(way: str, graphs: list[fx.GraphModule]) -> None:
    eager, fast = (result([Contrastive()], compile, **WAYS[way], max_length=12) for compile in (False, True))
    torch.testing.assert_close(fast, eager, rtol=0, atol=1e-10)
    assert graphs


def test_dropout_is_replayed_exactly_under_gradient_caching(
    graphs: list[fx.GraphModule], monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = result([Contrastive()], True, dropout=0.3, rows_at_once=12)
    monkeypatch.setattr(recompute, "checkpoint", lambda run, *arguments, use_reentrant: run(*arguments))
    kept = result([Contrastive()], True, dropout=0.3, rows_at_once=12)
    torch.testing.assert_close(cached, kept, rtol=0, atol=1e-10)
    assert graphs


def test_an_epoch_compiles_at_most_four_programs_of_a_layer(graphs: list[fx.GraphModule]) -> None:
    encoder = tiny_encoder(dropout=0.1, max_length=32, compile=True)
    draws = np.random.default_rng(0)
    for _ in range(60):
        lengths = np.clip(draws.normal(20, 8, 64).astype(int), 3, 32)
        ids = pad([[7] * int(length) for length in lengths], encoder.tokenize.pad_token_id)
        encoder(TokenBatch.concatenate([ids, ids], 0), need=Need(tokens=False)).embedding.sum().backward()
    assert len(graphs) <= 4 + 1  # and one of the comparison with eager


@pytest.mark.parametrize(
    ("device", "steps", "expected"), [("cuda", 1_001, True), ("cuda", 1_000, "auto"), ("cpu", 10**6, "auto")]
)
def test_auto_compiles_long_runs_on_cuda(
    device: str, steps: int, expected: Any, monkeypatch: pytest.MonkeyPatch, graphs: list[fx.GraphModule]
) -> None:
    module = SentRepModule(tiny_encoder(), [Contrastive()])
    assert module.encoder.compute.compile == "auto"
    monkeypatch.setattr(SentRepModule, "device", torch.device(device))
    module._compile(steps)
    assert module.encoder.compute.compile == expected
    loss_and_gradients(module, text_batch(module.encoder, SENTENCES[:8]))
    assert bool(graphs) == (expected is True)


def test_it_leaves_no_trace_in_what_is_stored_or_encoded(graphs: list[fx.GraphModule], tmp_path: Path) -> None:
    modules = [SentRepModule(tiny_encoder(compile=compile), [Contrastive()]) for compile in (False, True)]
    assert (modules[0].encoder.encode(SENTENCES) == modules[1].encoder.encode(SENTENCES)).all()
    assert not graphs  # an evaluation is eager
    pickled = pickle.loads(pickle.dumps(modules[1]))  # before the first step, as a spawned process gets it
    loss_and_gradients(modules[1], text_batch(modules[1].encoder, SENTENCES[:8]))
    assert list(modules[0].state_dict()) == list(modules[1].state_dict())
    for copied in (copy.deepcopy(modules[1]), pickled):
        assert list(copied.state_dict()) == list(modules[0].state_dict())
        assert loss_and_gradients(copied, text_batch(copied.encoder, SENTENCES[:8]))[1]
    modules[1].float().encoder.save_pretrained(tmp_path)
    assert (SentenceEncoder.from_pretrained(tmp_path).encode(SENTENCES) == modules[1].encoder.encode(SENTENCES)).all()
    made = len(graphs)
    modules[1].encoder.eval().encode(SENTENCES[:3])
    assert len(graphs) == made  # also after a compiled step


@pytest.mark.slow
def test_a_run_resumes_exactly_and_goes_on_without_compiling_and_the_other_way_round(
    tmp_path: Path, graphs: list[fx.GraphModule]
) -> None:
    def build(compile: bool = True) -> SentRepModule:
        return SentRepModule(tiny_encoder(dropout=0.1, compile=compile), [Contrastive()], seed=3, scheduler="constant")

    assert_resumes(build, tmp_path)
    assert graphs
    eager = assert_resumes(lambda: build(False), tmp_path / "eager")
    for folder, compile in ((tmp_path, True), (tmp_path / "eager", False)):
        half = folder / "step=2.ckpt"
        assert SentRepModule.load_from_checkpoint(half).encoder.compute.compile is compile
        module = build(not compile)
        quiet_trainer(max_steps=4).fit(module, toy_data(), ckpt_path=half)
        assert module.state_dict().keys() == eager.state_dict().keys()


def test_cheap_dropout_steps_aside(graphs: list[fx.GraphModule]) -> None:
    """Its draws cannot be traced, and compiled code fuses dropout: the graph of a layer is whole, and it drops."""
    encoder = tiny_encoder(dropout=0.3, compile=True)
    module = SentRepModule(encoder, [Contrastive()])
    tokens = text_batch(encoder, SENTENCES[:8]).anchor
    first, second = (module.encoder(tokens).embedding for _ in range(2))
    assert len(graphs) == 2  # in training, and in the comparison with eager
    assert not torch.equal(first, second)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_compiled_by_inductor_the_loss_and_gradient_are_equal_up_to_rounding() -> None:
    torch.compiler.reset()
    results = []
    for compile in (False, True):
        torch.manual_seed(0)
        config = {**FAMILIES["bert"], "num_hidden_layers": 1}
        encoder = SentenceEncoder(config, tokenizer="toy", dropout=0.0, compute=Compute(compile=compile))
        module = SentRepModule(encoder, [Contrastive()])
        results.append(loss_and_gradients(module, text_batch(encoder, SENTENCES[:12], SENTENCES[12:24])))
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=1e-10)
    torch.compiler.reset()
