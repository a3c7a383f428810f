"""The denoising objective against torch's decoder with all logits, beside other objectives, through a checkpoint."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from references.denoising import denoising_loss, gradients, run, shortened, torch_decoder
from sentrep import (
    InputError,
    Objective,
    ProjectionHead,
    SentenceEncoder,
    SentRepDataModule,
    SentRepModule,
    TextBatch,
    Views,
    distributed,
)
from sentrep.decoders import RealTokens
from sentrep.objectives import Contrastive, Denoising, denoising
from sentrep.types import TokenBatch
from sentrep.views import BatchGaussianNoise, EncodedViews, OutputPerturbedViews, TokenShuffling
from support import FAMILIES, assert_same, run_processes, text_batch, tiny_encoder, toy_sentences

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
    "anchor": {"target": "anchor"},
    "causal": {"target": "anchor", "causal": True, "noise": 0.3},
    "tsdae": TSDAE,
    "deep": {"layers": 5, "heads": 1, "activation": "gelu"},
    "of another width": {"head": 12, "heads": 4},
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


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_trains(family: str) -> None:
    encoder = tiny_encoder(family)
    module = built(encoder, ProjectionHead("linear"))
    loss, _ = step(module, text_batch(encoder, SENTENCES[:4], SENTENCES[4:8]))
    loss.backward()
    assert abs(loss.item() - 8.3) < 1.0  # about log 4000 at the start
    for name, parameter in module.named_parameters():
        if not name.startswith("encoder.backbone"):
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name


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


def test_with_the_contrastive_term_in_one_step_it_is_the_sum_of_the_two() -> None:
    def loss_and_gradients(names: list[str]) -> tuple[Tensor, dict[str, Tensor]]:
        encoder = tiny_encoder(dropout=0.1)
        torch.manual_seed(7)
        terms = {"contrastive": Contrastive(), "denoising": Denoising(layers=2, feed_forward=48)}
        weights = {"contrastive": 5.0, "denoising": 7.0}
        module = SentRepModule(
            encoder, {n: terms[n] for n in names}, {n: weights[n] for n in names}, head=ProjectionHead("linear")
        ).double()
        loss, _ = step(module, text_batch(encoder, SENTENCES[:8], SENTENCES[8:]))
        loss.backward()
        return loss.detach(), {n: p.grad for n, p in module.named_parameters() if p.grad is not None}

    both, gradient = loss_and_gradients(["contrastive", "denoising"])
    parts = [loss_and_gradients([name]) for name in ("contrastive", "denoising")]
    torch.testing.assert_close(both, parts[0][0] + parts[1][0], rtol=1e-12, atol=0)
    assert gradient.keys() == parts[0][1].keys() | parts[1][1].keys()
    for name, value in gradient.items():
        apart = sum(part.get(name, torch.zeros_like(value)) for _, part in parts)
        torch.testing.assert_close(value, apart, rtol=0, atol=1e-10, msg=name)


@pytest.mark.parametrize("arguments", [{}, TSDAE])
def test_one_forward_of_the_encoder_whatever_the_objectives(arguments: dict[str, Any]) -> None:
    encoder = tiny_encoder()
    terms = {"contrastive": Contrastive(), "denoising": Denoising(**{**SMALL, **arguments})}
    module = SentRepModule(encoder, terms)
    passes = []
    encoder.register_forward_hook(lambda *_: passes.append(1))
    loss, _ = step(module, text_batch(encoder, SENTENCES[:8]))
    loss.backward()
    assert len(passes) == 1


def test_two_objectives_share_the_head() -> None:
    terms = {"one": Denoising(**SMALL), "two": Denoising(**{**SMALL, "layers": 1})}
    module: Any = SentRepModule(tiny_encoder(), terms)
    assert module.objectives.terms["one"].lm_head is module.objectives.terms["two"].lm_head


def test_initial_weights_depend_on_the_seed_alone_and_disturb_no_other_draw() -> None:
    states = []
    for seed in (1, 1, 2):
        encoder = tiny_encoder()
        torch.manual_seed(len(states))
        before = torch.get_rng_state()
        module = SentRepModule(encoder, {"denoising": Denoising(**SMALL)}, seed=seed)
        assert torch.equal(torch.get_rng_state(), before)
        states.append(module.state_dict()["objectives.terms.denoising.decoder.layers.0.hidden.weight"])
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_deleted_tokens() -> None:
    torch.manual_seed(0)
    encoder = tiny_encoder(pooling="mask", prompt='"[X]" means [MASK].')
    before, after = encoder.spec(seed=0).frame
    assert (before, after) == (len(encoder.tokenize.prefix), len(encoder.tokenize.suffix))
    tokens = text_batch(encoder, SENTENCES * 30).anchor
    original = tokens.input_ids.clone()
    short = denoising.delete_tokens(tokens, 0.6, (before, after), encoder.tokenize.pad_token_id)
    assert torch.equal(tokens.input_ids, original)
    lengths, left = tokens.attention_mask.sum(1), short.attention_mask.sum(1)
    own, remaining = (lengths - before - after).float(), (left - before - after).float()
    assert remaining.min() == 1, "one token always stays"
    assert (remaining / own).mean().item() == pytest.approx(0.4, abs=0.03)
    for row in range(len(tokens)):
        ids = short.input_ids[row, : left[row]].tolist()
        assert ids[:before] == encoder.tokenize.prefix
        assert ids[len(ids) - after :] == encoder.tokenize.suffix
        inside = iter(tokens.input_ids[row, before : lengths[row] - after].tolist())
        assert all(token in inside for token in ids[before : len(ids) - after]), "the order has changed"
        assert set(short.input_ids[row, left[row] :].tolist()) <= {encoder.tokenize.pad_token_id}
    assert torch.equal(
        short.attention_mask, (short.attention_mask.cumsum(1) <= left[:, None]).long() * short.attention_mask
    )


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


def test_a_causal_decoder_sees_no_token_that_it_predicts() -> None:
    encoder = tiny_encoder(dropout=0.0)
    module = built(encoder, **{**TSDAE, "token_deletion": 0.0})
    objective: Any = module.objectives.terms["denoising"]
    batch = text_batch(encoder, SENTENCES[:1])
    _, views = step(module, batch)
    states: list[Tensor] = []
    objective.decoder.register_forward_hook(lambda _, __, out: states.append(out.detach()))
    objective(views, batch)
    views.anchor_output.input_embeddings = views.anchor_output.input_embeddings.detach().clone()
    views.anchor_output.input_embeddings[0, 3] += 1.0  # predicted at position 2
    objective(views, batch)
    assert len(states[0]) == int(batch.anchor.attention_mask.sum()) - 1
    torch.testing.assert_close(states[1][:3], states[0][:3])
    assert not torch.allclose(states[1][3:], states[0][3:])


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


def test_perturbed_outputs_are_rebuilt_from_the_anchor() -> None:
    encoder = tiny_encoder()
    module = SentRepModule(encoder, {"denoising": Denoising(**SMALL)}, views=OutputPerturbedViews(BatchGaussianNoise()))
    loss, _ = step(module, text_batch(encoder, SENTENCES[:4]))
    assert torch.isfinite(loss)


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


def test_views_of_other_sentences_are_refused() -> None:
    encoder = tiny_encoder()
    module = built(encoder)
    batch = text_batch(encoder, SENTENCES[:4], SENTENCES[4:8])
    _, views = step(module, batch)
    with pytest.raises(InputError, match="positive_output of the views"):
        module.objectives(dataclasses.replace(views, positive_output=views.positive_output[:2]), batch)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": 0}, "layers must be 1 or more"),
        ({"heads": 0}, "heads must be 1 or more"),
        ({"noise": 1.0}, r"noise must lie in \[0, 1\)"),
        ({"dropout": -0.1}, "dropout must lie"),
        ({"token_deletion": 1.0}, "token_deletion must lie"),
        ({"target": "negative"}, "target must be 'positive' or 'anchor'"),
        ({"activation": "tanh"}, "activation must be 'relu' or 'gelu'"),
        ({"heads": 5}, "heads must divide the encoder's width 32"),
    ],
)
def test_settings_that_make_no_sense_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SentRepModule(tiny_encoder(), [Denoising(**arguments)])


def fit(folder: Path, checkpoint: Path | None = None) -> SentRepModule:
    """Four steps with everything on; step 2 is kept as a checkpoint."""
    encoder = tiny_encoder(pooling="mean")
    encoder.save_pretrained(folder / "backbone")
    with pytest.warns(UserWarning, match="no complete masked-LM head"):
        module = SentRepModule(
            SentenceEncoder(str(folder / "backbone")),
            {
                "contrastive": Contrastive(),
                "denoising": Denoising(layers=2, feed_forward=48),
                "tsdae": Denoising(**{**SMALL, **TSDAE, "dropout": 0.1}),
            },
            head=ProjectionHead("linear"),
            seed=3,
        )
    data = SentRepDataModule(train="toy", batch_size=8, seed=3)
    trainer = lightning.Trainer(
        max_steps=4,
        accelerator="cpu",
        logger=False,
        callbacks=[ModelCheckpoint(folder, "{step}", every_n_train_steps=2, save_top_k=-1)],
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
    )
    trainer.fit(module, data, ckpt_path=checkpoint, weights_only=True if checkpoint else None)
    assert 0 <= trainer.callback_metrics["train/denoising/accuracy"] <= 1
    return module


def test_decoder_head_and_projector_are_trained_saved_resumed_and_not_exported(tmp_path: Path) -> None:
    whole = fit(tmp_path)
    torch.manual_seed(99)
    resumed = fit(tmp_path / "resumed", tmp_path / "step=2.ckpt")
    assert_same(resumed.state_dict(), whole.state_dict())

    earlier = torch.load(tmp_path / "step=2.ckpt", weights_only=True)["state_dict"]
    parts = ("objectives.terms.denoising.decoder.", "objectives.terms.denoising.lm_head.", "objectives.terms.tsdae.")
    for part in (*parts, "encoder.head."):
        moved = [n for n, p in whole.state_dict().items() if n.startswith(part) and not torch.equal(p, earlier[n])]
        assert moved, f"{part} is not trained"

    for name in ("backbone", "resumed"):
        (tmp_path / name).rename(tmp_path / f"{name} moved away")
    path = tmp_path / "step=4.ckpt"
    again = SentRepModule.load_from_checkpoint(path)
    assert_same(again.state_dict(), whole.state_dict())
    terms: Any = again.objectives.terms
    assert terms["denoising"].lm_head is terms["tsdae"].lm_head
    words = again.encoder.backbone.get_input_embeddings().weight
    assert terms["denoising"].lm_head.model.get_output_embeddings().weight is words

    exported = SentenceEncoder.from_pretrained(path)
    exported.save_pretrained(tmp_path / "exported")
    assert not [n for n, _ in exported.named_parameters() if "decoder" in n or "lm_head" in n or n.startswith("head")]
    files = sum(file.stat().st_size for file in (tmp_path / "exported").glob("*.safetensors"))
    backbone = sum(p.numel() for p in whole.encoder.backbone.parameters())
    assert files < 4 * backbone + 20_000, "more than the backbone was written"
    torch.testing.assert_close(
        exported.encode(SENTENCES, convert_to_tensor=True), whole.encoder.encode(SENTENCES, convert_to_tensor=True)
    )


def test_a_checkpoint_hands_its_trained_head_to_the_next_run(tmp_path: Path) -> None:
    trained = fit(tmp_path)
    head: Any = trained.objectives.terms["denoising"].lm_head
    next_run = SentenceEncoder(str(tmp_path / "step=4.ckpt"))
    assert_same(next_run.spec(seed=0).lm_head().state_dict(), head.state_dict())
    fresh = SentenceEncoder(str(tmp_path / "step=4.ckpt"), pretrained=False).spec(seed=0).lm_head().state_dict()
    dense = "model.cls.predictions.transform.dense.weight"
    assert not torch.equal(fresh[dense], head.state_dict()[dense])


def test_a_checkpoint_holds_the_word_embeddings_once(tmp_path: Path) -> None:
    fit(tmp_path)
    state = torch.load(tmp_path / "step=4.ckpt", weights_only=True)["state_dict"]
    words = [tensor for tensor in state.values() if tensor.shape == (4000, 32)]
    assert len(words) == 3  # the encoder's, and one under each objective
    assert len({tensor.data_ptr() for tensor in words}) == 1


class Step(nn.Module):
    """What DDP wraps."""

    def __init__(self) -> None:
        super().__init__()
        terms = {
            "contrastive": Contrastive(),
            "one": Denoising(**SMALL, noise=0.0),
            "two": Denoising(**SMALL, noise=0.0),
        }
        self.inner = SentRepModule(tiny_encoder(dropout=0.0), terms, head=ProjectionHead("linear")).double()

    def forward(self, batch: TextBatch) -> Tensor:
        return step(self.inner, batch)[0]


def gradients_through_ddp() -> dict[str, Tensor]:
    """After one step on the global batch of 8, of which each process has its rows."""
    model = Step()
    whole = text_batch(model.inner.encoder, sorted(SENTENCES[:8], key=len))
    share = 8 // distributed.world_size()
    rows = slice(distributed.rank() * share, (distributed.rank() + 1) * share)
    tokens = TokenBatch(whole.anchor.input_ids[rows], whole.anchor.attention_mask[rows])
    wrapped = DistributedDataParallel(model) if distributed.world_size() > 1 else model
    wrapped(TextBatch(tokens, None, None, whole.rows[rows])).backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    return {**found, "tokens": tokens.attention_mask.sum()}


def test_two_processes_with_unequal_token_counts_equal_one_through_ddp() -> None:
    expected = gradients_through_ddp()
    shares = run_processes(gradients_through_ddp, 2)
    counts = [share.pop("tokens") for share in shares]
    assert counts[0] != counts[1]
    assert sum(counts) == expected.pop("tokens")
    for share in shares:
        assert share.keys() == expected.keys()
        for name, gradient in expected.items():
            torch.testing.assert_close(share[name], gradient, rtol=0, atol=1e-10, msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [{"noise": 0.95}, TSDAE])
def test_the_decoder_learns_to_read_the_vector(arguments: dict[str, Any]) -> None:
    encoder = tiny_encoder(dropout=0.0, pooling="mean")
    module = built(encoder, **arguments)
    objective: Any = module.objectives.terms["denoising"]
    for parameter in objective.decoder.parameters():
        if parameter.ndim == 2:
            parameter.data.mul_(8)  # N(0, 0.02) is made for widths near 768; at 32 the signal would start too small
    batch = text_batch(encoder, SENTENCES)
    optimizer = torch.optim.AdamW(module.parameters(), lr=3e-3)
    for number in range(150):
        loss, _ = step(module, batch, seed=number)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        _, views = step(module, batch)
        other = {k: dataclasses.replace(v, embedding=v.embedding.roll(1, 0)) for k, v in views.extra.items()}
        shuffled = dataclasses.replace(views, anchor=views.anchor.roll(1, 0), extra=other)
        losses = []
        for seen in (views, shuffled):
            torch.manual_seed(5)
            losses.append(module.objectives(seen, batch)[0].item())
    assert losses[0] < losses[1] - 0.3, "another sentence's vector must make it much harder"


class Wrapped(Objective):
    """An objective within an objective, as users write them."""

    def __init__(self, inner: Objective) -> None:
        super().__init__()
        self.inner = inner

    def build(self, spec: Any) -> None:
        self.inner.build(spec)

    def extra_inputs(self, batch: Any) -> Any:
        return self.inner.extra_inputs(batch)

    def forward(self, views: Any, batch: Any) -> Tensor:
        return 2 * self.inner(views, batch)


def test_a_head_within_a_wrapped_objective_is_found_again(tmp_path: Path) -> None:
    encoder = tiny_encoder(pooling="mean")
    module = SentRepModule(encoder, {"mine": Wrapped(Denoising(layers=1, feed_forward=48))}, seed=1)
    data = text_batch(encoder, SENTENCES[:4])
    trainer = lightning.Trainer(
        accelerator="cpu", max_steps=1, logger=False, default_root_dir=tmp_path, enable_progress_bar=False,
        enable_model_summary=False, enable_checkpointing=False,
    )  # fmt: skip
    trainer.fit(module, torch.utils.data.DataLoader([data], batch_size=None))  # type: ignore[arg-type]
    trainer.save_checkpoint(tmp_path / "a.ckpt", weights_only=False)
    next_run = SentenceEncoder(str(tmp_path / "a.ckpt"))
    head: Any = module.objectives.terms["mine"].inner.lm_head
    assert_same(next_run.spec(seed=5).lm_head().state_dict(), head.state_dict())


def test_the_mean_of_one_token_is_its_loss() -> None:
    """A blank sentence that is read from left to right has one token to predict; two of them have the same mean."""
    module = built(tiny_encoder(dropout=0.0), causal=True, noise=0.0)
    one, two = (step(module, text_batch(module.encoder, [""] * count))[0] for count in (1, 2))
    torch.testing.assert_close(one, two)
