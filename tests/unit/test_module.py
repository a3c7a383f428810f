"""The training module with a real Trainer: logs, steps, checkpoints that stand alone."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning
import numpy as np
import pytest
import scipy.stats
import torch
import yaml
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy, Strategy

from sentrep import InputError, ProjectionHead, SentenceEncoder, SentRepModule, TextBatch
from sentrep.data import toy
from sentrep.functional import alignment, uniformity
from sentrep.negatives import GaussianNegatives
from sentrep.objectives import Alignment, Contrastive
from sentrep.stability import SAM
from sentrep.training.arguments import check_trainer
from sentrep.training.parameter_groups import parameter_groups
from support import assert_same, loader, quiet_trainer, text_batch, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(32)


def batches(encoder: SentenceEncoder, size: int = 8) -> list[TextBatch]:
    return [text_batch(encoder, SENTENCES[k : k + size]) for k in range(0, len(SENTENCES), size)]


def test_the_sum_is_weighted_and_every_term_logged() -> None:
    simcse = Contrastive(negatives={"noise": GaussianNegatives()})
    module = SentRepModule(tiny_encoder(), {"simcse": simcse, "near": Alignment()}, weights={"near": 0.25})
    run = quiet_trainer(limit_train_batches=1)
    run.fit(module, loader(batches(module.encoder)))
    logged = {name: float(value) for name, value in run.callback_metrics.items()}
    assert logged["train/loss"] == pytest.approx(logged["train/simcse"] + 0.25 * logged["train/near"], rel=1e-5)
    assert logged["train/near/weighted"] == pytest.approx(0.25 * logged["train/near"])
    assert "train/simcse/weighted" not in logged
    assert logged["train/simcse/dose/noise"] == pytest.approx(float(simcse.metrics["dose/noise"]))
    names = {"alignment", "uniformity", "positive_cosine", "negative_cosine", "effective_rank"}
    assert {f"train/{name}" for name in names} <= logged.keys()


@pytest.mark.parametrize(
    ("scheduler", "warmup", "expected"),
    [
        ("linear", 0, [1.0, 0.75, 0.5, 0.25]),
        ("linear", 2, [0.0, 0.5, 1.0, 0.5]),
        ("linear", 0.5, [0.0, 0.5, 1.0, 0.5]),
        ("cosine", 0, [(1 + math.cos(step * math.pi / 4)) / 2 for step in range(4)]),
        ("constant", 0, [1.0, 1.0, 1.0, 1.0]),
        ("constant", 2, [0.0, 0.5, 1.0, 1.0]),
    ],
)
def test_schedules(scheduler: Any, warmup: float, expected: list[float], encoder: SentenceEncoder) -> None:
    rates: list[float] = []

    class Watch(lightning.Callback):
        def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
            rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    how = {"optimizer": functools.partial(torch.optim.SGD, lr=1.0), "scheduler": scheduler, "warmup_steps": warmup}
    module = SentRepModule(encoder, [Contrastive()], **how)
    quiet_trainer(callbacks=[Watch()]).fit(module, loader(batches(encoder)))
    assert rates == pytest.approx(expected)


def test_validation_scores_the_sets_and_their_mean() -> None:
    encoder = tiny_encoder(pooling="mean")
    module = SentRepModule(encoder, [Contrastive()])
    sets = [toy.scored_pairs("dev"), toy.scored_pairs("test")]
    run = quiet_trainer()
    run.validate(module, [loader([pairs]) for pairs in sets], verbose=False)
    metrics = {name: float(value) for name, value in run.callback_metrics.items()}
    assert metrics["val/sts"] == pytest.approx((metrics["val/toy-dev"] + metrics["val/toy-test"]) / 2, abs=1e-4)
    cosine = encoder.similarity_pairwise(encoder.encode(sets[0].first), encoder.encode(sets[0].second))
    correlation = 100 * scipy.stats.spearmanr(cosine, sets[0].scores).statistic
    assert metrics["val/toy-dev"] == pytest.approx(correlation, abs=1e-5)
    for pairs in sets:
        first, second = (encoder.encode(texts, convert_to_tensor=True) for texts in (pairs.first, pairs.second))
        alike = [row for row, score in enumerate(pairs.scores) if score > 0.8 * max(pairs.scores)]
        expected = {
            "alignment": alignment(first[alike], second[alike]),
            "alignment_all": alignment(first, second),
            "uniformity": uniformity(torch.cat([first, second])),
            "uniformity_first": uniformity(first),
        }
        for name, value in expected.items():
            assert metrics[f"val/{pairs.name}/{name}"] == pytest.approx(float(value), abs=1e-5)


@pytest.mark.parametrize("count", [1, 2])
def test_every_stage_takes_one_loader_or_several(count: int) -> None:
    """Lightning hands the number of the loader to a step only where there are several."""
    module, run = SentRepModule(tiny_encoder(pooling="mean"), [Contrastive()]), quiet_trainer()
    sets = [toy.scored_pairs(name) for name in ("dev", "test")][:count]
    for stage, scored in (("val", run.validate), ("test", run.test)):
        scored(module, [loader([pairs]) for pairs in sets], verbose=False)
        assert {f"{stage}/{pairs.name}" for pairs in sets} <= run.callback_metrics.keys()
    found: Any = run.predict(module, [loader([SENTENCES[:3]]) for _ in sets])
    vectors = module.encoder.encode(SENTENCES[:3], convert_to_tensor=True)
    for each in found if count > 1 else [found]:
        torch.testing.assert_close(each, [vectors])


def test_collapsed_vectors_do_not_become_a_score(encoder: SentenceEncoder) -> None:
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.zero_()
    with pytest.raises(InputError, match="toy-dev"):
        quiet_trainer().validate(
            SentRepModule(encoder, [Contrastive()]), loader([toy.scored_pairs("dev")]), verbose=False
        )


def test_identical_views_are_warned_of() -> None:
    encoder = tiny_encoder(dropout=0.0)
    with pytest.warns(UserWarning, match="identical"):
        quiet_trainer(limit_train_batches=1).fit(SentRepModule(encoder, [Contrastive()]), loader(batches(encoder)))


def test_an_encoder_that_was_loaded_to_encode_is_trained_with_its_dropout() -> None:
    module = SentRepModule(tiny_encoder().eval(), [Contrastive()])
    assert all(part.training for part in module.encoder.modules())


def _checkpoint(folder: Path, **arguments: Any) -> tuple[SentRepModule, Path]:
    encoder = tiny_encoder()
    encoder.save_pretrained(folder / "backbone")
    encoder = SentenceEncoder(str(folder / "backbone"), pooling="mean", max_length=16)
    module = SentRepModule(encoder, {"simcse": Contrastive(temperature=0.07)}, **arguments)
    run = quiet_trainer(limit_train_batches=2, logger=CSVLogger(folder, "logs", ""))
    run.fit(module, loader(batches(encoder)))
    run.save_checkpoint(folder / "last.ckpt")
    (folder / "backbone").rename(folder / "moved_away")
    return module, folder / "last.ckpt"


def test_a_checkpoint_of_a_python_built_module_stands_alone(tmp_path: Path) -> None:
    optimizer = functools.partial(SAM, base_optimizer=torch.optim.SGD)
    module, path = _checkpoint(tmp_path, head=ProjectionHead("mlp"), seed=5, optimizer=optimizer)
    expected = module.encoder.encode(SENTENCES)
    again = SentRepModule.load_from_checkpoint(path)
    assert again.seed == 5
    assert isinstance(again.optimizer(parameter_groups(again)), SAM)
    told = yaml.safe_load((tmp_path / "logs/hparams.yaml").read_text())
    assert {"model.seed": 5, "model.objectives.simcse.temperature": 0.07}.items() <= told.items()
    assert told["model.head.kind"] == "mlp"
    assert again.objectives.terms["simcse"].temperature == 0.07
    assert_same(again.state_dict(), module.state_dict())
    np.testing.assert_array_equal(again.encoder.encode(SENTENCES), expected)
    encoder = SentenceEncoder.from_pretrained(path)
    assert (encoder.pooling, encoder.max_length, encoder.head) == ("mean", 16, None)
    np.testing.assert_array_equal(encoder.encode(SENTENCES), expected)


def test_a_module_without_a_head_takes_off_the_head_of_an_earlier_module(encoder: SentenceEncoder) -> None:
    SentRepModule(encoder, [Contrastive()], head=ProjectionHead("mlp", out_features=8))
    module = SentRepModule(encoder, [Contrastive()])
    assert module.encoder.head is None
    assert module.views_of(batches(encoder)[0]).anchor.shape == (8, 32)


def test_a_checkpoint_of_another_library_is_refused(tmp_path: Path) -> None:
    torch.save({"state_dict": {}}, tmp_path / "x.ckpt")
    for load in (SentRepModule.load_from_checkpoint, SentenceEncoder.from_pretrained):
        with pytest.raises(InputError, match="not one of sentrep"):
            load(tmp_path / "x.ckpt")


@pytest.mark.parametrize("strategy", [FSDPStrategy(), ModelParallelStrategy()])
def test_a_strategy_that_divides_the_weights_is_refused(strategy: Strategy) -> None:
    with pytest.raises(InputError, match=r"use ddp.*rows_at_once.*model\.encoder\.trainable"):
        check_trainer(SimpleNamespace(strategy=strategy))
