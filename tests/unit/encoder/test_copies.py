"""Second encoders: trained ones, ones that stay and ones that follow, through training, checkpoints and processes."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from torch import Tensor, nn

from sentrep import (
    EncoderServices,
    EncoderSpec,
    InputError,
    Objective,
    ProjectionHead,
    SentenceEncoder,
    SentRepModule,
    TextBatch,
    Views,
    distributed,
)
from sentrep.encoder import EncoderCopy, frozen
from sentrep.functional import info_nce
from sentrep.stability import SAM
from support import (
    assert_resumes,
    assert_same,
    loss_and_gradients,
    quiet_trainer,
    text_batch,
    tiny_encoder,
    toy_data,
    toy_sentences,
)

SENTENCES = toy_sentences(24)
SGD = functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9)


class AgainstCopy(Objective):
    """Contrast with the vectors of copies."""

    reads_tokens = False

    def __init__(self, trainable: bool = False, momentum: float | None = None) -> None:
        super().__init__()
        self.kind = {"trainable": trainable, "momentum": momentum}

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        self.copy = services.copy(**self.kind)
        self.judge = frozen(nn.Sequential(nn.Linear(spec.embedding_dim, 4), nn.Dropout(0.5)))

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        output = self.copy(batch.anchor)
        self.judged = self.judge(views.anchor)
        assert output.token_states.shape[:2] == batch.anchor.input_ids.shape
        keys = distributed.gather(self.copy.project(output.embedding))
        rows = distributed.own_rows(len(views.anchor), keys.device)
        return info_nce(views.anchor, keys, temperature=0.1, positives=rows)


KINDS: dict[str, dict[str, Any]] = {"frozen": {}, "momentum": {"momentum": 0.5}, "trained": {"trainable": True}}


def build(*kinds: str, dropout: float = 0.0, optimizer: Any = SGD, **how: Any) -> SentRepModule:
    encoder = tiny_encoder(dropout=dropout, pooling="mean", **how)
    terms: dict[str, Objective | None] = {f"{n}-{kind}": AgainstCopy(**KINDS[kind]) for n, kind in enumerate(kinds)}
    return SentRepModule(encoder, terms, head=ProjectionHead(), optimizer=optimizer, scheduler="constant", seed=1)


def copies(module: SentRepModule) -> list[EncoderCopy]:
    return [term.copy for term in module.objectives.terms.values()]  # type: ignore[misc]


def test_equal_copies_that_are_not_trained_are_one() -> None:
    services = EncoderServices(tiny_encoder(), 0)
    assert services.copy() is services.copy()
    assert services.copy(momentum=0.9) is services.copy(momentum=0.9)
    several = [services.copy(), *(services.copy(momentum=m) for m in (0.0, 0.9))]
    several += [services.copy(trainable=True) for _ in range(2)]
    assert len({*several}) == 5
    assert {*several} == {*services.copies}


def test_modes_and_what_is_trained() -> None:
    module = build("frozen", "momentum", "trained", dropout=0.1).train()
    encoder = module.encoder
    assert [one.encoder.backbone.training for one in copies(module)] == [False, False, True]
    for one in copies(module):
        assert all(p.requires_grad == one.trainable for p in one.parameters())
        assert one.encoder.tokenize is encoder.tokenize
        assert not {*one.parameters()} & {*encoder.parameters()}
        assert encoder not in {*one.modules()}
        assert_same(dict(one.encoder.state_dict()), dict(encoder.state_dict()))
    batch = text_batch(encoder, SENTENCES[:4])
    encoder.eval()
    loss_and_gradients(module, batch)
    assert not module.objectives.terms["0-frozen"].judged.requires_grad
    expected = encoder(batch.anchor).embedding
    for one in copies(module)[:2]:
        assert not one(batch.anchor).embedding.requires_grad
        torch.testing.assert_close(one(batch.anchor).embedding, expected)
    assert not torch.equal(copies(module)[2](batch.anchor).embedding, expected)  # dropout
    assert all(p.grad is not None for p in copies(module)[2].parameters())


@pytest.mark.parametrize("arguments", [{"momentum": 1.0}, {"momentum": -0.1}, {"trainable": True, "momentum": 0.5}])
def test_what_no_copy_can_be_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="copy: "):
        EncoderServices(tiny_encoder(), 0).copy(**arguments)


class Follow(lightning.Callback):
    """The moving average, written down anew after every optimiser step."""

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.average = [p.detach().clone() for p in pl_module.encoder.parameters()]

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if (batch_idx + 1) % trainer.accumulate_grad_batches == 0:
            parameters = pl_module.encoder.parameters()
            self.average = [0.5 * a + 0.5 * p.detach() for a, p in zip(self.average, parameters, strict=True)]


@pytest.mark.parametrize("sam", [False, True])
def test_a_copy_follows_once_per_optimiser_step(sam: bool) -> None:
    module = build("momentum", "momentum", "frozen", optimizer=(lambda groups: SAM(groups, SGD)) if sam else SGD)
    start = copy.deepcopy(module.encoder.state_dict())
    following = Follow()
    quiet_trainer(max_steps=3, accumulate_grad_batches=2, callbacks=[following]).fit(module, toy_data())
    for own, expected in zip(copies(module)[0].parameters(), following.average, strict=True):
        torch.testing.assert_close(own, expected)
    assert_same(dict(copies(module)[2].encoder.state_dict()), start)
    assert not torch.equal(next(copies(module)[0].parameters()), next(module.encoder.parameters()))


def test_a_copy_of_the_module_follows_its_own_encoder() -> None:
    module = build("momentum")
    again = copy.deepcopy(module)
    with torch.no_grad():
        for parameter in again.encoder.parameters():
            parameter.add_(1.0)
    before = copy.deepcopy(copies(module)[0].state_dict())
    copies(again)[0].after_step()
    copies(module)[0].after_step()
    assert_same(dict(copies(module)[0].state_dict()), before)
    moved = [a - b for a, b in zip(copies(again)[0].parameters(), copies(module)[0].parameters(), strict=True)]
    assert all(torch.allclose(tensor, torch.full_like(tensor, 0.5), atol=1e-6) for tensor in moved)


def test_checkpoints_hold_the_copies_once_and_resume_exactly(tmp_path: Path) -> None:
    kinds = ("frozen", "momentum", "frozen", "trained")
    whole = assert_resumes(lambda: build(*kinds, dropout=0.1), tmp_path)
    path = tmp_path / "step=4.ckpt"
    state = torch.load(path, weights_only=True)["state_dict"]
    names = [f"objectives.terms.{n}-frozen.copy.encoder.backbone.embeddings.word_embeddings.weight" for n in (0, 2)]
    assert state[names[0]].data_ptr() == state[names[1]].data_ptr()
    rebuilt = SentRepModule.load_from_checkpoint(path, trust_plugins=True)
    assert_same(dict(whole.state_dict()), dict(rebuilt.state_dict()))
    assert copies(rebuilt)[0] is copies(rebuilt)[2]

    SentenceEncoder.from_pretrained(path).save_pretrained(tmp_path / "model")
    expected = whole.encoder.encode(SENTENCES[:4])
    for place in (path, tmp_path / "model"):
        assert abs(SentenceEncoder.from_pretrained(place).encode(SENTENCES[:4]) - expected).max() < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_passes_of_a_copy_hold_few_rows(kind: str) -> None:
    module = build(kind, rows_at_once=5, layout="padded", compile=True)  # copies are not compiled
    rows: list[int] = []
    embeddings = copies(module)[0].encoder.backbone.embeddings
    count = lambda module, _, words: rows.append(len(words["input_ids"]))  # noqa: E731
    embeddings.register_forward_pre_hook(count, with_kwargs=True)
    copies(module)[0](text_batch(module.encoder, SENTENCES[:12]).anchor)
    assert rows == [5, 5, 2]


def test_a_frozen_model_predicts_tokens(teacher: str) -> None:
    encoder = tiny_encoder(rows_at_once=3)
    model = EncoderServices(encoder, 0).frozen(teacher)
    tokens = text_batch(encoder, SENTENCES[:7]).anchor
    logits = model.predict_tokens(tokens)
    alone = SentenceEncoder.from_pretrained(teacher)
    expected = alone.language_model_head(0).eval()(alone(tokens).token_states)
    assert logits.shape == (*tokens.input_ids.shape, encoder.vocab_size)
    assert not logits.requires_grad
    real = tokens.attention_mask.bool()
    torch.testing.assert_close(logits[real], expected[real])
