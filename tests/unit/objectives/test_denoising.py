"""The denoising objective against torch's decoder with all logits, and through a checkpoint.

unit/decoders has the decoder alone; contracts/test_every_plugin.py and test_combinations.py have it beside others.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from references.denoising import denoising_loss, run, torch_decoder
from sentrep import InputError, ProjectionHead, SentenceEncoder, SentRepModule, TextBatch, Views
from sentrep.decoders import RealTokens
from sentrep.objectives import Denoising, UncertaintyWeighted, denoising
from sentrep.types import TokenBatch
from sentrep.views import EncodedViews, TokenDeletion, TokenShuffling, WordRepetition
from support import assert_resumes, assert_same, assert_same_gradients, plugged, text_batch, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(16)
SMALL: dict[str, Any] = {"layers": 2, "heads": 2, "feed_forward": 48, "dropout": 0.0}
TSDAE: dict[str, Any] = {"target": "anchor", "noise": 0.0, "causal": True, "token_deletion": 0.6}


def step(module: SentRepModule, batch: TextBatch, seed: int = 1) -> tuple[Tensor, Views]:
    """The loss as in a training step."""
    torch.manual_seed(seed)
    views = module.views_of(batch)
    return module.objectives(views, batch)[0], views


def built(encoder: SentenceEncoder, head: ProjectionHead | None = None, **arguments: Any) -> SentRepModule:
    return SentRepModule(encoder, {"denoising": Denoising(**{**SMALL, **arguments})}, head=head)


def noisy_inputs(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Remember what the decoder reads from now on: (T, E) of every call."""
    seen: list[Tensor] = []
    drop = denoising.drop

    def remembered(x: Tensor, p: float) -> Tensor:
        noisy = drop(x, p)
        seen.append(noisy.detach())
        return noisy

    monkeypatch.setattr(denoising, "drop", remembered)
    return seen


CASES: dict[str, dict[str, Any]] = {
    "positive": {},
    "positive, lengths unknown": {"known": False},
    "without given positives": {"paired": False},
    "shuffled words, in order": {"paired": False, "views": [TokenShuffling]},
    "repeated words, as they are read": {"views": [lambda: WordRepetition(1.0)]},
    "tokens left out": {"paired": False, "views": [lambda: TokenDeletion(0.5)]},
    "causal anchor": {"target": "anchor", "causal": True, "noise": 0.3},
    "causal anchor, lengths unknown": {"target": "anchor", "causal": True, "noise": 0.3, "known": False},
    "tsdae": TSDAE,
    "tsdae, of another width": {**TSDAE, "head": 12},
    "of another width": {"head": 12, "heads": 4, "activation": "gelu"},
}


@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradient_equal_the_plain_way(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No gradient flows through the decoder's input, which the reference reads without a graph.

    `tests/unit/decoders` compares the gradients of the decoder's own weights.
    """
    how = {"head": None, "paired": True, "views": [], "known": True, **CASES[case]}
    head = ProjectionHead("linear", out_features=how.pop("head"))
    maker = EncodedViews([make() for make in how.pop("views")])
    paired, known = how.pop("paired"), how.pop("known")
    encoder = tiny_encoder(dropout=0.0)
    batch = text_batch(encoder, SENTENCES[:8], SENTENCES[8:] if paired else None)
    module = SentRepModule(encoder, {"denoising": Denoising(**{**SMALL, **how})}, head=head, views=maker).double()
    objective: Any = module.objectives.terms["denoising"]
    objective.chunk = 7
    with torch.no_grad():  # a token that is often named
        objective.lm_head.model.cls.predictions.bias[batch.anchor.input_ids[0, 1]] = 0.5
    for tokens in () if known else (batch.anchor, batch.positive):
        tokens.lengths = None  # type: ignore[union-attr]
    seen = noisy_inputs(monkeypatch)
    loss, views = step(module, batch)

    clean: Any = batch.anchor if objective.target == "anchor" else (views.read or batch).positive
    ids, mask = (x[:, 1:] if objective.causal else x for x in (clean.input_ids, clean.attention_mask))
    output = views.anchor_output if objective.target == "anchor" else views.positive_output
    embedded, kept = output.input_embeddings[:, : mask.shape[1]][mask.bool()], seen[0] != 0
    torch.testing.assert_close(seen[0][kept], embedded[kept] / (1 - objective.noise), rtol=1e-3, atol=0)
    memory = views.extra["denoising.tokens_deleted"].embedding if objective.token_deletion else views.anchor
    decoder = torch_decoder(objective.decoder, objective.init_args["activation"])
    states = run(decoder, RealTokens.of(mask).unpack(seen[0]), mask, memory, causal=objective.causal)
    logits = objective.lm_head(states)
    expected = denoising_loss(logits, ids, mask)
    right = (logits.argmax(-1) == ids)[mask.bool()].float().mean()
    torch.testing.assert_close(objective.metrics["accuracy"], right, check_dtype=False)
    others = [parameter for name, parameter in module.named_parameters() if "decoder." not in name]
    assert_same_gradients(loss, expected, others)
    loss.backward()
    assert all(p.grad is not None for p in objective.decoder.parameters()), "an idle parameter breaks DDP"


def test_the_noise_is_a_dropout_in_training_and_in_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    module = built(tiny_encoder(dropout=0.0), noise=0.825)
    batch = text_batch(module.encoder, SENTENCES[:8], SENTENCES[8:])
    seen = noisy_inputs(monkeypatch)
    for mode, seed in ((True, 1), (False, 2)):
        step(module.train(mode), batch, seed)
        assert (seen[-1] != 0).float().mean().item() == pytest.approx(0.175, abs=0.02), "noise is the task"


def test_deletion_removes_what_was_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = TokenBatch(
        torch.tensor([[1, 10, 11, 12, 2, 0], [1, 20, 21, 22, 23, 2]]), torch.tensor([[1] * 5 + [0], [1] * 6])
    )
    draws = torch.tensor([[0.9, 0.5, 0.7, 0.2, 0.0, 0.9], [0.0, 0.2, 0.3, 0.1, 0.25, 0.0]])
    monkeypatch.setattr(torch, "rand", lambda *_, **__: draws.clone())
    objective = plugged(Denoising(**SMALL, token_deletion=0.4), tiny_encoder())
    (short,) = objective.extra_inputs(TextBatch(tokens, None, None, torch.arange(2))).values()
    left = [ids[:length].tolist() for ids, length in zip(short.input_ids, short.attention_mask.sum(1), strict=True)]
    assert left == [[1, 10, 11, 2], [1, 21, 2]]  # 21 drew the most


def test_views_of_other_sentences_are_refused(encoder: SentenceEncoder) -> None:
    module = built(encoder)
    batch = text_batch(encoder, SENTENCES[:4], SENTENCES[4:8])
    _, views = step(module, batch)
    with pytest.raises(InputError, match="positive_output of the views"):
        module.objectives(dataclasses.replace(views, positive_output=views.positive_output[:2]), batch)


def both_kinds() -> SentRepModule:
    nested = UncertaintyWeighted({"tsdae": Denoising(**{**SMALL, **TSDAE})})
    terms = {"denoising": Denoising(layers=1, feed_forward=48), "nested": nested}
    return SentRepModule(tiny_encoder(pooling="mean"), terms, head=ProjectionHead("linear"), seed=3)


def test_decoder_and_head_are_trained_resumed_and_handed_on_but_not_exported(tmp_path: Path) -> None:
    whole: Any = assert_resumes(both_kinds, tmp_path)
    state = torch.load(tmp_path / "step=2.ckpt", weights_only=True)["state_dict"]
    for part in ("denoising.decoder.", "denoising.lm_head.", "nested."):
        names = [name for name in state if name.startswith(f"objectives.terms.{part}")]
        assert any(not torch.equal(state[name], whole.state_dict()[name]) for name in names), f"{part} is not trained"
    words = [tensor for tensor in state.values() if tensor.shape == (4000, 32)]
    assert len({tensor.data_ptr() for tensor in words}) == 1 < len(words), "a checkpoint holds the embeddings once"

    path = tmp_path / "step=4.ckpt"
    terms: Any = SentRepModule.load_from_checkpoint(path).objectives.terms
    assert terms["denoising"].lm_head is terms["nested"].sum.terms["tsdae"].lm_head
    head = whole.objectives.terms["denoising"].lm_head.state_dict()
    assert_same(SentenceEncoder(str(path)).language_model_head(0).state_dict(), head)
    fresh = SentenceEncoder(str(path), pretrained=False).language_model_head(0).state_dict()
    assert any(not torch.equal(fresh[name], tensor) for name, tensor in head.items())
    names = [name for name, _ in SentenceEncoder.from_pretrained(path).named_parameters()]
    assert not [name for name in names if "decoder" in name or "lm_head" in name]


def test_the_mean_of_one_token_is_its_loss() -> None:
    """A blank sentence that is read from left to right has one token to predict; two of them have the same mean."""
    module = built(tiny_encoder(dropout=0.0), causal=True, noise=0.0)
    one, two = (step(module, text_batch(module.encoder, [""] * count))[0] for count in (1, 2))
    torch.testing.assert_close(one, two)
