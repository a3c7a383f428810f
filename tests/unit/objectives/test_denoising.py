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

from references.denoising import denoising_loss, gradients, run, shortened, torch_decoder
from sentrep import InputError, Objective, ProjectionHead, SentenceEncoder, SentRepModule, TextBatch, Views
from sentrep.decoders import RealTokens
from sentrep.objectives import Denoising, denoising
from sentrep.types import TokenBatch
from sentrep.views import EncodedViews, TokenShuffling
from support import (
    assert_resumes,
    assert_same,
    text_batch,
    tiny_encoder,
    toy_sentences,
)

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
    """What the decoder reads, from now on: (T, E) of every call."""
    seen: list[Tensor] = []
    drop = denoising.drop

    def remembered(x: Tensor, p: float) -> Tensor:
        seen.append(drop(x, p))
        return seen[-1]

    monkeypatch.setattr(denoising, "drop", remembered)
    return seen


def reference_loss(objective: Denoising, noisy: Tensor, tokens: TokenBatch, memory: Tensor) -> tuple[Tensor, Any]:
    """The plain way, from the ruined tokens on."""
    ids, mask = tokens.input_ids, tokens.attention_mask
    if objective.causal:
        ids, mask = ids[:, 1:], mask[:, 1:]
    decoder = torch_decoder(objective.decoder, objective.init_args["activation"])
    x = RealTokens.of(mask).unpack(noisy)
    states = run(decoder, x, mask, memory, causal=objective.causal)
    logits = objective.lm_head(states)
    return denoising_loss(logits, ids, mask), decoder


CASES: dict[str, dict[str, Any]] = {
    "positive": {},
    "without given positives": {"paired": False},
    "causal anchor": {"target": "anchor", "causal": True, "noise": 0.3},
    "tsdae": TSDAE,
    "of another width": {"head": 12, "heads": 4, "activation": "gelu"},
}


@pytest.mark.parametrize("case", CASES)
def test_loss_and_every_gradient_equal_the_plain_way(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = dict(CASES[case])
    head = ProjectionHead("linear", out_features=arguments.pop("head", None))
    encoder = tiny_encoder(dropout=0.0)
    batch = text_batch(encoder, SENTENCES[:8], SENTENCES[8:] if arguments.pop("paired", True) else None)
    module = built(encoder, head, **arguments).double()
    objective: Any = module.objectives.terms["denoising"]
    objective.chunk = 7
    seen = noisy_inputs(monkeypatch)
    loss, views = step(module, batch)
    loss.backward()
    fast = {
        name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None and "decoder." not in name
    }
    decoder_gradients = {name: p.grad for name, p in objective.decoder.named_parameters()}
    assert all(gradient is not None for gradient in decoder_gradients.values()), "an idle parameter breaks DDP"
    module.zero_grad()

    _, views = step(module, batch)
    memory = views.extra["denoising.tokens_deleted"].embedding if objective.token_deletion else views.anchor
    clean = batch.anchor if objective.target == "anchor" or batch.positive is None else batch.positive
    expected, decoder = reference_loss(objective, seen[0], clean, memory)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=0)
    expected.backward()
    slow = {name: p.grad for name, p in module.named_parameters() if p.grad is not None and "decoder." not in name}
    assert fast.keys() == slow.keys()
    for name, gradient in slow.items():
        torch.testing.assert_close(fast[name], gradient, rtol=0, atol=1e-10, msg=name)
    for name, parameter in objective.decoder.named_parameters():
        parameter.grad = decoder_gradients[name]
    for name, mine, theirs in gradients(objective.decoder, decoder):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10, msg=name)


def test_the_noise_and_what_it_falls_on(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny_encoder(dropout=0.0)
    module = built(encoder, noise=0.825)
    batch = text_batch(encoder, SENTENCES[:8], SENTENCES[8:])
    seen = noisy_inputs(monkeypatch)
    _, views = step(module, batch)
    mask = batch.positive.attention_mask.bool()  # type: ignore[union-attr]
    clean = views.positive_output.input_embeddings[:, : mask.shape[1]][mask]
    (noisy,) = seen
    kept = noisy != 0
    assert kept.float().mean().item() == pytest.approx(0.175, abs=0.02)
    torch.testing.assert_close(noisy[kept], clean[kept] / 0.175, rtol=1e-3, atol=0)
    module.eval()
    step(module, batch, seed=2)
    assert (seen[1] != 0).float().mean().item() == pytest.approx(0.175, abs=0.02), "noise is the task"


def test_no_gradient_reaches_the_encoder_through_the_decoders_input() -> None:
    encoder = tiny_encoder(dropout=0.0)
    module = built(encoder, noise=0.0)
    batch = text_batch(encoder, SENTENCES[:4])
    _, views = step(module, batch)
    inputs = views.positive_output.input_embeddings.detach().requires_grad_()
    anchor = views.anchor.detach().requires_grad_()
    views = dataclasses.replace(
        views, anchor=anchor, positive_output=dataclasses.replace(views.positive_output, input_embeddings=inputs)
    )
    module.objectives(views, batch)[0].backward()
    assert inputs.grad is None
    assert anchor.grad is not None
    assert anchor.grad.abs().sum() > 0


def test_accuracy_counts_the_tokens_that_are_named() -> None:
    encoder = tiny_encoder(dropout=0.0)
    module = built(encoder, noise=0.0)
    objective: Any = module.objectives.terms["denoising"]
    batch = text_batch(encoder, SENTENCES[:4])
    with torch.no_grad():  # a head that names the first sentence's second token, whatever it reads
        for parameter in objective.decoder.parameters():
            parameter.zero_()
        wanted = int(batch.anchor.input_ids[0, 1])
        objective.lm_head.model.cls.predictions.bias[wanted] = 100.0
    step(module, batch)
    real = batch.anchor.input_ids[batch.anchor.attention_mask.bool()]
    assert objective.metrics["accuracy"].item() == pytest.approx((real == wanted).float().mean().item())
    assert objective.metrics["accuracy"] > 0


def test_deletion_removes_what_was_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = TokenBatch(
        torch.tensor([[1, 10, 11, 12, 2, 0], [1, 20, 21, 22, 23, 2]]), torch.tensor([[1] * 5 + [0], [1] * 6])
    )
    draws = torch.tensor([[0.9, 0.1, 0.7, 0.2, 0.0, 0.9], [0.0, 0.2, 0.3, 0.1, 0.25, 0.0]])
    monkeypatch.setattr(torch, "rand", lambda *_, **__: draws.clone())
    short = denoising.delete_tokens(tokens, 0.5, (1, 1), 0)
    expected = [
        shortened([1, 10, 11, 12, 2], [False, True, False, True, False]),
        shortened([1, 20, 21, 22, 23, 2], [False, True, False, True, True, False]),  # 21 drew the most
    ]
    got = [ids[:length].tolist() for ids, length in zip(short.input_ids, short.attention_mask.sum(1), strict=True)]
    assert got == expected == [[1, 11, 2], [1, 21, 2]]


def test_the_count_that_the_host_knows_changes_nothing() -> None:
    encoder = tiny_encoder(dropout=0.0)
    for arguments in ({}, {"causal": True}):
        module = built(encoder, **arguments)
        batch = text_batch(encoder, SENTENCES[:8], SENTENCES[8:])
        assert batch.positive is not None
        assert batch.positive.lengths.tolist() == batch.positive.attention_mask.sum(1).tolist()
        known, _ = step(module, batch)
        batch.positive.lengths = None
        assert torch.equal(known, step(module, batch)[0])


def test_shuffled_words_are_rebuilt_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny_encoder(dropout=0.0)
    module = SentRepModule(
        encoder, {"denoising": Denoising(**SMALL, noise=0.0)}, views=EncodedViews([TokenShuffling()])
    )
    batch = text_batch(encoder, SENTENCES[:4])
    wanted: list[Tensor] = []
    plain = denoising.chunked_cross_entropy

    def watched(states: Tensor, targets: Tensor, *rest: Any, **more: Any) -> Any:
        wanted.append(targets)
        return plain(states, targets, *rest, **more)

    monkeypatch.setattr(denoising, "chunked_cross_entropy", watched)
    _, views = step(module, batch)
    assert not torch.equal(views.positive_output.input_embeddings, views.anchor_output.input_embeddings)
    assert torch.equal(wanted[0], batch.anchor.input_ids[batch.anchor.attention_mask.bool()])


def test_views_of_other_sentences_are_refused(encoder: SentenceEncoder) -> None:
    module = built(encoder)
    batch = text_batch(encoder, SENTENCES[:4], SENTENCES[4:8])
    _, views = step(module, batch)
    with pytest.raises(InputError, match="positive_output of the views"):
        module.objectives(dataclasses.replace(views, positive_output=views.positive_output[:2]), batch)


def test_tokens_are_deleted_within_the_frame_and_one_stays() -> None:
    encoder = tiny_encoder(pooling="mask", prompt='"[X]" means [MASK].')
    before, after = encoder.spec(seed=0).frame
    tokens = text_batch(encoder, SENTENCES * 30).anchor
    torch.manual_seed(0)
    short = denoising.delete_tokens(tokens, 0.6, (before, after), encoder.tokenize.pad_token_id)
    own, left = (each.attention_mask.sum(1) - before - after for each in (tokens, short))
    assert left.min() == 1
    assert (left / own).mean().item() == pytest.approx(0.4, abs=0.03)
    for row, count in enumerate(left.tolist()):
        ids = short.input_ids[row, : before + count + after].tolist()
        assert ids[:before] == encoder.tokenize.prefix
        assert ids[len(ids) - after :] == encoder.tokenize.suffix


class Wrapped(Objective):
    """An objective within an objective, as users write them."""

    def __init__(self, inner: Objective) -> None:
        super().__init__()
        self.inner = inner

    def build(self, spec: Any, services: Any) -> None:
        self.inner.build(spec, services)

    def extra_inputs(self, batch: Any) -> Any:
        return self.inner.extra_inputs(batch)

    def forward(self, views: Any, batch: Any) -> Tensor:
        return 2 * self.inner(views, batch)


def both_kinds() -> SentRepModule:
    terms = {"denoising": Denoising(layers=1, feed_forward=48), "tsdae": Wrapped(Denoising(**{**SMALL, **TSDAE}))}
    return SentRepModule(tiny_encoder(pooling="mean"), terms, head=ProjectionHead("linear"), seed=3)


def test_decoder_and_head_are_trained_resumed_and_handed_on_but_not_exported(tmp_path: Path) -> None:
    whole: Any = assert_resumes(both_kinds, tmp_path)
    state = torch.load(tmp_path / "step=2.ckpt", weights_only=True)["state_dict"]
    for part in ("denoising.decoder.", "denoising.lm_head.", "tsdae."):
        names = [name for name in state if name.startswith(f"objectives.terms.{part}")]
        assert any(not torch.equal(state[name], whole.state_dict()[name]) for name in names), f"{part} is not trained"
    words = [tensor for tensor in state.values() if tensor.shape == (4000, 32)]
    assert len({tensor.data_ptr() for tensor in words}) == 1 < len(words), "a checkpoint holds the embeddings once"

    path = tmp_path / "step=4.ckpt"
    terms: Any = SentRepModule.load_from_checkpoint(path, trust_plugins=True).objectives.terms
    assert terms["denoising"].lm_head is terms["tsdae"].inner.lm_head
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
