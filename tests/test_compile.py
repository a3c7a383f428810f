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

import pytest
import torch
from plugins import objectives
from torch import Tensor, fx

from sentrep import InputError, Objective, SentenceEncoder, SentRepModule, negatives
from sentrep.encoder import POOLINGS, Compute, ConvolutionalPooling, Dense, Normalize, Prompt
from sentrep.encoder.compute import attention, compiled, recompute
from sentrep.encoder.encode import pad
from sentrep.objectives import Contrastive, Distillation, Matryoshka, UncertaintyWeighted
from sentrep.types import Need, TextBatch
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


@pytest.mark.parametrize("family", ["bert", "mpnet", "modernbert"])
def test_encoder_and_objective_are_a_graph_each_with_the_eager_loss_and_gradient(
    family: str, graphs: list[fx.GraphModule]
) -> None:
    eager, fast = (result([Contrastive()], compile, family=family) for compile in (False, True))
    torch.testing.assert_close(fast, eager, rtol=0, atol=1e-10)
    assert len(graphs) == 2


def broken(encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> SentenceEncoder:
    """The encoder, in whose passes a graph breaks: at the words, as in every family, and at the attention of most."""
    words = encoder.backbone.get_input_embeddings()
    monkeypatch.setattr(words, "forward", torch.compiler.disable(words.forward))
    monkeypatch.setattr(attention, "_attend", torch.compiler.disable(attention._attend))
    return encoder


FEW = {("bert", "cls"), ("roberta", "last"), ("electra", "mask"), ("modernbert", "mean")}
BREAKS = [
    pytest.param(family, pooling, marks=[] if (family, pooling) in FEW else pytest.mark.slow)
    for family in FAMILIES
    for pooling in POOLINGS
]


@pytest.mark.parametrize(("family", "pooling"), BREAKS)
def test_a_graph_break_within_the_pass_changes_no_vector(
    family: str, pooling: str, graphs: list[fx.GraphModule], monkeypatch: pytest.MonkeyPatch
) -> None:
    how: dict[str, Any] = {"pooling": pooling, "prompt": '"[X]" means [MASK].' if pooling == "mask" else None}
    if pooling == "pooler" and getattr(tiny_encoder(family).backbone, "pooler", None) is None:
        pytest.skip("this family has no pooler")
    eager, fast = (tiny_encoder(family, dropout=0.0, compile=compile, **how) for compile in (False, True))
    broken(fast, monkeypatch)
    tokens = text_batch(eager, SENTENCES[:6]).anchor
    for training in (True, False):
        for need in (Need(tokens=False), Need(layers=(1,))):
            expected, found = (encoder.train(training)(tokens, need=need) for encoder in (eager, fast))
            torch.testing.assert_close(found.embedding, expected.embedding, rtol=0, atol=1e-5)
    assert len(graphs) > 4


@pytest.mark.parametrize(("part", "layout"), [("encoder", "padded"), ("backbone", "packed"), ("layer", "padded")])
def test_what_users_compile_themselves_may_have_a_graph_break_too(
    part: str, layout: Any, graphs: list[fx.GraphModule], monkeypatch: pytest.MonkeyPatch
) -> None:
    eager, fast = (tiny_encoder(dropout=0.0, layout=layout) for _ in range(2))
    parts = {"encoder": fast, "backbone": fast.backbone, "layer": fast.backbone.encoder.layer[-1]}
    broken(fast, monkeypatch)
    parts[part].compile()
    tokens = text_batch(eager, SENTENCES[:6]).anchor
    for need in (Need(tokens=False), Need(layers=(1,))):
        found, expected = (encoder(tokens, need=need).embedding for encoder in (fast, eager))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert graphs


EAGER = ("denoising", "information", "mlm")
"""The number of their tokens changes with the batch."""


def compilable(teacher: str) -> dict[str, Callable[[], Objective]]:
    """One of each, with what goes into a graph of its own."""
    names = ["contrastive, refined", "contrastive, mixed", "contrastive, through the statistics", "complementary",
             "self-weighting", "nt-xent", "sign-flipped", "distillation", "alignment", "bidirectional margin",
             "uniformity", "ranking consistency", *EAGER]  # fmt: skip
    return {
        **{name: objectives(teacher)[name] for name in names},
        "hard negatives": lambda: Contrastive(hard_negative_weight=0.5, label_smoothing=0.1),
        "blocks": lambda: Contrastive(block=5),
        "nested": lambda: UncertaintyWeighted(
            {"m": Matryoshka(Contrastive(angular_margin=10), [32, 8]), "d": Distillation(teacher, kind="listmle")}
        ),
    }


@pytest.mark.parametrize("name", compilable(""))
def test_every_objective(name: str, teacher: str, graphs: list[fx.GraphModule]) -> None:
    results = []
    for compile in (False, True):
        encoder = tiny_encoder(dropout=0.0, pooling="mean")
        module = SentRepModule(encoder, [compilable(teacher)[name]()])
        if compile:
            module.objectives.compile_terms("default")
        batch = text_batch(encoder, SENTENCES[:12], SENTENCES[12:24], SENTENCES[24:])
        torch.manual_seed(5)
        results.append(loss_and_gradients(module, batch))
    # a teacher computes in float32
    torch.testing.assert_close(
        results[1], results[0], rtol=0, atol=1e-6 if name in ("distillation", "nested") else 1e-10
    )
    assert bool(graphs) == (name not in EAGER)


@pytest.mark.parametrize(
    "arguments",
    [
        {"views": EncodedViews([GaussianNoise(), FGSM()])},
        {"rows_at_once": 7},
        {"modules": [Dense("tanh"), Normalize()]},
        {"modules": [ConvolutionalPooling()], "rows_at_once": 7},
        {"prompt": Prompt('"[X]" means [MASK].', subtract=True), "pooling": "mask"},
        {
            "prompts": EncodedViews([WordRepetition()], positive_prompt="[X] is a [MASK]."),
            "prompt": Prompt('"[X]" means [MASK].', subtract=True),
            "pooling": "mask",
        },
    ],
    ids=lambda arguments: next(iter(arguments)),
)
def test_ways_to_run_the_encoder(arguments: dict[str, Any], graphs: list[fx.GraphModule]) -> None:
    arguments = {"views" if name == "prompts" else name: value for name, value in arguments.items()}
    eager, fast = (result([Contrastive()], compile, **arguments, max_length=12) for compile in (False, True))
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


def batches(encoder: SentenceEncoder, widths: range) -> Iterator[TextBatch]:
    """One batch whose longest sentence has so many tokens, for each width."""
    for width in widths:
        ids = [[7] * max(3, width - row) for row in range(8)]
        yield TextBatch(pad(ids, encoder.tokenize.pad_token_id), None, None, torch.arange(8))


@pytest.mark.slow
def test_nothing_is_compiled_after_warm_up(graphs: list[fx.GraphModule]) -> None:
    encoder = tiny_encoder(dropout=0.1, max_length=32, compile=True)
    bank = negatives.MemoryBank(size=64)
    module = SentRepModule(encoder, [Contrastive(negatives={"bank": bank})])

    def steps(widths: range) -> None:
        for batch in batches(encoder, widths):
            views = module.views_of(batch)
            module.objectives(views, batch)[0].backward()
            with torch.no_grad():
                module.objectives.after_step(views)

    steps(range(8, 33, 8))
    warm = len(graphs)
    assert warm == 4 + 4  # four lengths; the objective without, with a first and with any number of remembered rows
    steps(range(3, 33))
    assert len(graphs) == warm


def test_evaluation_stays_eager(graphs: list[fx.GraphModule]) -> None:
    encoder = tiny_encoder(dropout=0.1, compile=True)
    plain = tiny_encoder(dropout=0.1).encode(SENTENCES)
    module = SentRepModule(encoder, [Contrastive()])
    assert (module.encoder.encode(SENTENCES) == plain).all()
    assert not graphs


def test_it_leaves_no_trace_in_what_is_stored(graphs: list[fx.GraphModule], tmp_path: Path) -> None:
    modules = [SentRepModule(tiny_encoder(compile=compile), [Contrastive()]) for compile in (False, True)]
    pickled = pickle.loads(pickle.dumps(modules[1]))  # before the first step, as a spawned process gets it
    loss_and_gradients(modules[1], text_batch(modules[1].encoder, SENTENCES[:8]))
    assert list(modules[0].state_dict()) == list(modules[1].state_dict())
    for copied in (copy.deepcopy(modules[1]), pickled):
        assert list(copied.state_dict()) == list(modules[0].state_dict())
        assert loss_and_gradients(copied, text_batch(copied.encoder, SENTENCES[:8]))[1]
    modules[1].float().encoder.save_pretrained(tmp_path)
    assert (SentenceEncoder.from_pretrained(tmp_path).encode(SENTENCES) == modules[1].encoder.encode(SENTENCES)).all()


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
    """Its draws cannot be traced, and compiled code fuses dropout anyway: the graph is whole, and it drops."""
    encoder = tiny_encoder(dropout=0.3, compile=True)
    module = SentRepModule(encoder, [Contrastive()])
    tokens = text_batch(encoder, SENTENCES[:8]).anchor
    first, second = (module.encoder(tokens).embedding for _ in range(2))
    assert len(graphs) == 1
    assert not torch.equal(first, second)


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    compiled.check_compiler.cache_clear()
    with pytest.raises(InputError, match=r"needs a C\+\+ compiler.*no-such-compiler"):
        result([Contrastive()], True)
    monkeypatch.setattr(compiled.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="triton"):
        compiled.check_compiler("cuda")


def test_cuda_graphs_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU the mode changes nothing; what is checked is that torch is told."""
    asked: list[dict[str, Any]] = []
    compile = torch.compile

    def noted(function: Any, **options: Any) -> Any:
        asked.append(options)
        return compile(function, **{**options, "backend": "eager", "mode": None})

    monkeypatch.setattr(torch, "compile", noted)
    compiled._compiled.cache_clear()
    module = SentRepModule(tiny_encoder(compile="reduce-overhead"), [Contrastive()])
    loss_and_gradients(module, text_batch(module.encoder, SENTENCES[:8]))
    compiled._compiled.cache_clear()
    torch.compiler.reset()
    assert [options["mode"] for options in asked] == ["reduce-overhead"] * 2


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
