"""What of a backbone is trained: parts of it by name, and low-rank adapters, merged and not."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sentrep import (
    InputError,
    ProjectionHead,
    SentenceEncoder,
    SentRepModule,
    TextBatch,
    distributed,
)
from sentrep.encoder import Lora
from sentrep.objectives import Contrastive, MaskedLanguageModeling
from sentrep.stability import SAM
from sentrep.types import Need
from support import (
    FAMILIES,
    assert_resumes,
    checkpoint_of,
    loss_and_gradients,
    quiet_trainer,
    run_processes,
    text_batch,
    tiny_encoder,
    toy_data,
    toy_sentences,
)

SENTENCES = toy_sentences(8)
LAST = ["encoder.layer.1.*"]


def trained(encoder: SentenceEncoder) -> set[str]:
    return {name for name, parameter in encoder.backbone.named_parameters() if parameter.requires_grad}


def disturb(encoder: SentenceEncoder) -> SentenceEncoder:
    """With adapters that do something."""
    for name, parameter in encoder.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    return encoder


def test_names_say_what_is_trained() -> None:
    every = {name for name, _ in tiny_encoder().backbone.named_parameters()}
    assert trained(tiny_encoder()) == every
    assert trained(tiny_encoder(trainable=False)) == set()
    assert trained(tiny_encoder(trainable=LAST)) == {name for name in every if name.startswith("encoder.layer.1.")}
    assert trained(tiny_encoder(trainable=["*.bias", "embeddings.LayerNorm.*"])) == {
        name for name in every if name.endswith(".bias") or name.startswith("embeddings.LayerNorm.")
    }


def test_a_pattern_that_fits_nothing_is_refused() -> None:
    with pytest.raises(InputError, match=r"'encoder.layers.1.\*' fits no parameter .*did you mean 'encoder.layer.1"):
        tiny_encoder(trainable=["encoder.layers.1.*"])


@pytest.mark.parametrize("arguments", [{"alpha": 0.0}, {"dropout": 1.0}])
def test_an_adapter_is_checked(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"Lora: {next(iter(arguments))}"):
        Lora(**arguments)


def test_nothing_to_train_is_refused() -> None:
    module = SentRepModule(tiny_encoder(trainable=False), [Contrastive()])
    with pytest.raises(InputError, match=r"no parameter is trained: model.encoder.trainable.* add model.head"):
        quiet_trainer(max_steps=1).fit(module, toy_data())
    quiet_trainer(max_steps=1).fit(
        SentRepModule(tiny_encoder(trainable=False), [Contrastive()], head=ProjectionHead("mlp")), toy_data()
    )


def gradients(rows: int | None = None, **arguments: Any) -> tuple[Tensor, dict[str, Tensor]]:
    encoder = tiny_encoder(dropout=0.0, rows_at_once=rows, **arguments)
    module = SentRepModule(disturb(encoder), [Contrastive(), MaskedLanguageModeling()], head=ProjectionHead("mlp"))
    torch.manual_seed(5)
    return loss_and_gradients(module, text_batch(encoder, SENTENCES))


CASES: dict[str, dict[str, Any]] = {
    "head alone": {"trainable": False},
    "last layer": {"trainable": LAST},
    "lora": {"trainable": Lora(rank=4)},
    "lora and last layer": {"trainable": Lora(rank=4, targets=["query"], also=LAST)},
}
PARTS = pytest.mark.parametrize("arguments", CASES.values(), ids=CASES)


@PARTS
def test_gradients_are_those_of_the_whole_and_the_same_in_groups_of_rows(arguments: dict[str, Any]) -> None:
    loss, found = gradients(**arguments)
    torch.manual_seed(0)
    encoder = tiny_encoder(dropout=0.0, **arguments)
    frozen = {f"encoder.backbone.{n}" for n, p in encoder.backbone.named_parameters() if not p.requires_grad}
    assert frozen
    assert not frozen & found.keys()
    if encoder.adapter is None:
        whole, expected = gradients()
        assert torch.equal(loss, whole)
        assert all(torch.allclose(gradient, expected[name], atol=1e-12) for name, gradient in found.items())
    cached, again = gradients(rows=3, **arguments)
    torch.testing.assert_close(cached, loss, rtol=0, atol=1e-10)
    assert again.keys() == found.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(again[name], gradient, rtol=0, atol=1e-10, msg=name)


def adamw(groups: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(groups, lr=1e-2, fused=True)


def build(arguments: dict[str, Any], optimizer: Any = adamw) -> SentRepModule:
    encoder = tiny_encoder(dropout=0.1, **arguments)
    head = ProjectionHead("mlp")
    return SentRepModule(encoder, [Contrastive()], head=head, optimizer=optimizer, scheduler="constant", seed=1)


def assert_that_only_trained_weights_moved(module: SentRepModule, start: SentRepModule) -> None:
    before = dict(start.named_parameters())
    moved = {name for name, parameter in module.named_parameters() if not torch.equal(parameter, before[name])}
    assert moved
    assert moved <= {name for name, parameter in module.named_parameters() if parameter.requires_grad}


@PARTS
def test_frozen_weights_stay_and_a_resumed_run_ends_where_the_whole_one_does(
    arguments: dict[str, Any], tmp_path: Path
) -> None:
    whole = assert_resumes(lambda: build(arguments), tmp_path)
    assert_that_only_trained_weights_moved(whole, build(arguments))
    again = SentRepModule.load_from_checkpoint(tmp_path / "step=2.ckpt")
    assert trained(again.encoder) == trained(tiny_encoder(**arguments))
    kept = torch.load(tmp_path / "step=4.ckpt", weights_only=True)["optimizer_states"][0]["state"]
    assert len(kept) == len([p for p in again.parameters() if p.requires_grad])


@PARTS
@pytest.mark.slow
def test_sam_and_clipping_leave_frozen_weights_alone(arguments: dict[str, Any]) -> None:
    module = build(arguments, lambda groups: SAM(groups, lambda inner: torch.optim.SGD(inner, lr=0.1)))
    quiet_trainer(max_steps=2, gradient_clip_val=1.0).fit(module, toy_data(8))
    assert_that_only_trained_weights_moved(module, build(arguments))


def through_ddp(arguments: dict[str, Any]) -> dict[str, Tensor]:
    """Gradients of the global batch, by the wrapper that waits for every trained parameter."""
    encoder = tiny_encoder(dropout=0.0, **arguments)
    module = SentRepModule(disturb(encoder), [Contrastive()], head=ProjectionHead("mlp")).double()
    rows = distributed.own_rows(len(SENTENCES) // distributed.world_size(), torch.device("cpu"))
    batch = text_batch(encoder, [SENTENCES[row] for row in rows])
    wrapped = Step(module)
    if distributed.world_size() > 1:
        wrapped = torch.nn.parallel.DistributedDataParallel(wrapped)  # type: ignore[assignment]
    for _ in range(2):  # a parameter that the first step left out would stop the second
        module.zero_grad()
        wrapped(batch).backward()
    return {name: p.grad for name, p in module.named_parameters() if p.grad is not None}


class Step(torch.nn.Module):
    def __init__(self, module: SentRepModule) -> None:
        super().__init__()
        self.module = module

    def forward(self, batch: TextBatch) -> Tensor:
        return self.module.objectives(self.module.views_of(batch), batch)[0]


def every_part_through_ddp() -> list[dict[str, Tensor]]:
    return [through_ddp(arguments) for arguments in CASES.values()]


def test_ddp_waits_for_no_frozen_parameter() -> None:
    expected = every_part_through_ddp()
    for found in run_processes(every_part_through_ddp, 2):
        for gradients, wanted in zip(found, expected, strict=True):
            assert gradients.keys() == wanted.keys()
            for name, gradient in wanted.items():
                torch.testing.assert_close(gradients[name], gradient, rtol=0, atol=1e-10, msg=name)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_gives_the_merged_vectors(family: str, tmp_path: Path) -> None:
    encoder = disturb(tiny_encoder(family, pooling="mean", trainable=Lora(rank=4, dropout=0.1)))
    plain = tiny_encoder(family, pooling="mean")
    assert type(encoder.backbone) is type(plain.backbone)
    vectors = encoder.encode(SENTENCES)
    assert np.abs(vectors - plain.encode(SENTENCES)).max() > 1e-3
    encoder.save_pretrained(tmp_path / "model")
    merged = SentenceEncoder.from_pretrained(tmp_path / "model")
    assert merged.adapter is None
    assert {n: t.shape for n, t in merged.state_dict().items()} == {n: t.shape for n, t in plain.state_dict().items()}
    np.testing.assert_allclose(merged.encode(SENTENCES), vectors, atol=1e-6)
    np.testing.assert_array_equal(encoder.encode(SENTENCES), vectors)


def test_adapters_begin_with_the_backbones_vectors_and_name_their_layers() -> None:
    encoder = tiny_encoder(trainable=Lora(targets=["query", "attention.output.dense"]), dropout=0.0)
    np.testing.assert_allclose(encoder.encode(SENTENCES), tiny_encoder().encode(SENTENCES), atol=1e-6)
    layers = {name.split(".lora_")[0].split(".", 3)[-1] for name in trained(encoder)}
    assert layers == {"attention.self.query", "attention.output.dense"}
    with pytest.raises(InputError, match="'queri' is no linear layer of the backbone; did you mean 'query'"):
        tiny_encoder(trainable=Lora(targets=["queri"]))


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("layout", ["auto", "padded"])
def test_the_fast_passes_stay(layout: str, pooling: str) -> None:
    encoder = disturb(tiny_encoder(pooling=pooling, trainable=Lora(), layout=layout, dropout=0.0))
    slow = disturb(tiny_encoder(pooling=pooling, trainable=Lora(), layout="padded", dropout=0.0, cheap_dropout=False))
    slow.load_state_dict(encoder.state_dict())
    tokens = text_batch(encoder, SENTENCES).anchor
    for need in (Need(tokens=False), Need()):
        vectors = [each(tokens, need=need).embedding for each in (encoder, slow)]
        torch.testing.assert_close(*vectors, rtol=0, atol=1e-6)


def test_a_checkpoint_rebuilds_alone_and_may_be_gone_on_with(tmp_path: Path) -> None:
    adapter = Lora(rank=3, alpha=5.0, targets=["query", "value"])
    module = SentRepModule(disturb(tiny_encoder(pooling="mean", trainable=adapter)), [Contrastive()])
    path = checkpoint_of(module, tmp_path)
    vectors = module.encoder.encode(SENTENCES)
    content = torch.load(path, weights_only=True)
    assert content["sentrep"]["training"]["adapter"] == asdict(adapter)
    again = SentenceEncoder.from_pretrained(path)
    assert again.adapter is None  # merged
    np.testing.assert_allclose(again.encode(SENTENCES), vectors, atol=1e-6)
    np.testing.assert_array_equal(SentRepModule.load_from_checkpoint(path).encoder.eval().encode(SENTENCES), vectors)
    for other in (True, Lora(rank=2)):
        encoder = SentenceEncoder(str(path), pooling="mean", trainable=other)
        assert encoder.adapter == (None if other is True else other)
        np.testing.assert_allclose(encoder.encode(SENTENCES), vectors, atol=1e-6)
    content["sentrep"]["training"]["adapter"]["rank"] = "many"
    torch.save(content, tmp_path / "damaged.ckpt")
    with pytest.raises(InputError, match=r"damaged\.ckpt: the checkpoint is damaged"):
        SentenceEncoder.from_pretrained(tmp_path / "damaged.ckpt")
