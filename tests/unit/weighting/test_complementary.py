"""DCLR's instance weighting against loops, and a complementary model that stays out of training."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from torch import Tensor

from references.dclr import weighted_loss
from sentrep import InputError, NegativeSampler, SentenceEncoder, SentRepModule, TextBatch, Views
from sentrep.encoder.fingerprint import fingerprint
from sentrep.objectives import Contrastive, Distillation
from sentrep.training.parameter_groups import parameter_groups
from sentrep.weighting import ComplementaryWeighting
from support import (
    FAMILIES,
    assert_same_gradients,
    bare_views,
    plugged,
    quiet_trainer,
    text_batch,
    tiny_encoder,
    toy_data,
    toy_sentences,
)

SENTENCES = toy_sentences(16)
ANCHORS, POSITIVES = SENTENCES[:8], SENTENCES[8:]
NOTHING = torch.empty(0, 32)


class Fixed(NegativeSampler):
    """The same vectors in every step."""

    def __init__(self, rows: list[list[float]]) -> None:
        super().__init__()
        self.rows = rows

    def sample(self, anchors: Tensor, keys: Tensor) -> Tensor:
        return anchors.new_tensor(self.rows)


def views(width: int = 32) -> Views:
    generator = torch.Generator().manual_seed(0)
    return bare_views(*(torch.randn(8, width, generator=generator, requires_grad=True) for _ in range(2)))


def judged(teacher: str, paired: bool) -> tuple[Tensor, Tensor]:
    encoder = SentenceEncoder.from_pretrained(teacher)
    anchors = encoder.encode(ANCHORS, convert_to_tensor=True)
    return anchors, encoder.encode(POSITIVES, convert_to_tensor=True) if paired else anchors  # type: ignore[return-value]


def median_off_diagonal(x: Tensor, y: Tensor) -> float:
    cosine = torch.nn.functional.cosine_similarity(x[:, None], y[None], dim=2)
    return float(cosine[~torch.eye(len(x), dtype=torch.bool)].median()) + 1e-5


@pytest.mark.parametrize("mask_noise", [True, False])
@pytest.mark.parametrize("paired", [True, False])
def test_the_weighted_loss_equals_eq_5_and_6(
    teacher: str, paired: bool, mask_noise: bool, encoder: SentenceEncoder
) -> None:
    anchors, keys = judged(teacher, paired)
    threshold = median_off_diagonal(anchors, keys)
    noise = torch.cat([torch.randn(5, 32), anchors[:2].clone()])  # two that the complementary model must find
    objective = Contrastive(
        temperature=0.5,
        negatives={"noise": Fixed(noise.tolist())},
        weighting=ComplementaryWeighting(teacher, threshold, mask_noise=mask_noise),
    )
    x = views()
    loss = plugged(objective, encoder)(x, text_batch(encoder, ANCHORS, POSITIVES if paired else None))
    expected = weighted_loss(x.anchor, x.positive, noise, anchors, keys, threshold, 0.5, mask_noise)
    assert_same_gradients(loss, expected, [x.anchor, x.positive], rtol=1e-6, atol=1e-6)
    assert objective.metrics["masked"].item() == pytest.approx(0.5, abs=0.1)
    assert (objective.metrics["masked_extra"] > 0) == mask_noise


def judgement(model: str | Path, sentences: list[str] = ANCHORS, noise: Tensor = NOTHING, **arguments: Any) -> Tensor:
    """The weights that a complementary model gives the pairs of a batch."""
    encoder = tiny_encoder()
    weighting = plugged(ComplementaryWeighting(str(model), **{"threshold": 0.9, **arguments}), encoder)
    return weighting(text_batch(encoder, sentences), views(), noise)


def test_identical_sentences_are_false_negatives(teacher: str) -> None:
    weights = judgement(teacher, ["the dog ran", "the cat slept", "the dog ran"], threshold=1 - 1e-5)
    assert weights.tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


def module(teacher: str) -> SentRepModule:
    weighting = ComplementaryWeighting(teacher, threshold=0.9)
    return SentRepModule(tiny_encoder(), {"dclr": Contrastive(weighting=weighting)})


def fit(module: SentRepModule) -> lightning.Trainer:
    run = quiet_trainer(max_steps=4)
    run.fit(module, toy_data())
    return run


def complementary(module: SentRepModule) -> ComplementaryWeighting:
    return module.objectives.terms["dclr"].weighting  # type: ignore[return-value, union-attr]


@pytest.mark.parametrize("term", ["dclr", "distillation"])
def test_a_frozen_model_stays_out_of_training_and_of_the_checkpoint(term: str, teacher: str) -> None:
    files = {path.name: path.read_bytes() for path in Path(teacher).glob("*.safetensors")}
    trained = module(teacher) if term == "dclr" else SentRepModule(tiny_encoder(), {term: Distillation(teacher)})
    metrics = fit(trained).callback_metrics
    assert metrics["train/dclr/masked" if term == "dclr" else "train/distillation"] >= 0
    holder: Any = complementary(trained) if term == "dclr" else trained.objectives.terms[term]
    frozen = (holder.complementary if term == "dclr" else holder.teacher).load()
    trained.train().double()
    assert not frozen.training
    assert not any(parameter.requires_grad for parameter in frozen.parameters())
    assert next(frozen.parameters()).dtype == torch.float32

    own = {*trained.encoder.parameters()}
    assert {parameter for group in parameter_groups(trained) for parameter in group["params"]} == own
    place = f"objectives.terms.{term}{'.weighting' if term == 'dclr' else ''}._extra_state"
    state = {key: value for key, value in trained.state_dict().items() if not key.startswith("encoder.")}
    assert state.keys() == {"_extra_state", place}
    assert (state[place]["model"], state[place]["fingerprint"]) == (teacher, fingerprint(frozen))
    assert files == {path.name: path.read_bytes() for path in Path(teacher).glob("*.safetensors")}


def test_copies_give_the_same_weights(teacher: str, encoder: SentenceEncoder) -> None:
    """A pickled one, too: a spawned process gets it."""
    weighting, batch = plugged(ComplementaryWeighting(teacher, 0.9), encoder), text_batch(encoder, ANCHORS)
    expected = weighting(batch, views(), NOTHING)
    for again in (copy.deepcopy(weighting), pickle.loads(pickle.dumps(weighting))):
        assert torch.equal(again(batch, views(), NOTHING), expected)


def test_loading_the_model_draws_nothing_from_the_run(teacher: str) -> None:
    states = []
    for weigh in (lambda: tiny_encoder(), lambda: judgement(teacher)):  # both seed the stream for the encoder
        weigh()
        states.append(torch.random.get_rng_state())
    assert torch.equal(*states)


def test_a_checkpoint_loads_without_the_complementary_model(tmp_path: Path) -> None:
    tiny_encoder(seed=3).save_pretrained(tmp_path / "simcse")
    weighted = module(str(tmp_path / "simcse"))
    fit(weighted).save_checkpoint(tmp_path / "x.ckpt")
    (tmp_path / "simcse").rename(tmp_path / "moved_away")
    again = SentRepModule.load_from_checkpoint(tmp_path / "x.ckpt")
    assert complementary(again).get_extra_state() == complementary(weighted).get_extra_state()
    with pytest.raises(InputError, match="simcse"):
        complementary(again)(text_batch(again.encoder, ANCHORS), views(), NOTHING)


@pytest.mark.parametrize("loaded", [True, False])
def test_another_model_under_the_same_name_is_refused_after_a_resume(
    tmp_path: Path, loaded: bool, encoder: SentenceEncoder
) -> None:
    folder = tmp_path / "simcse"
    batch: TextBatch = text_batch(encoder, ANCHORS)

    def weighting() -> ComplementaryWeighting:
        return plugged(ComplementaryWeighting(str(folder), threshold=0.9), encoder)

    tiny_encoder(seed=3).save_pretrained(folder)
    old = weighting()
    old(batch, views(), NOTHING)
    tiny_encoder(seed=4).save_pretrained(folder)
    new = weighting()
    if loaded:
        new(batch, views(), NOTHING)

    def resume() -> None:
        new.load_state_dict(old.state_dict())
        new(batch, views(), NOTHING)

    with pytest.raises(InputError, match="not those that training began with"):
        resume()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"prompt": '"[X]" means [MASK].', "pooling": "mask"}, "tokenizer or prompt"),
        ({"max_position_embeddings": 6}, "at most 6 tokens"),
        ({"hidden_size": 16}, r"16 dimensions and the extra negatives 32, .* set mask_noise: false beside model"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*only sentrep and transformers.*")
def test_a_model_that_does_not_fit_is_refused(overrides: dict[str, Any], message: str, tmp_path: Path) -> None:
    sizes = {key: overrides.pop(key) for key in list(overrides) if key in FAMILIES["bert"]}
    SentenceEncoder({**FAMILIES["bert"], **sizes}, tokenizer="toy", **overrides).save_pretrained(tmp_path)
    with pytest.raises(InputError, match=message):
        judgement(tmp_path, [*ANCHORS, " ".join(ANCHORS)], torch.randn(3, 32))


def test_a_narrower_model_may_judge_sentences_alone(tmp_path: Path) -> None:
    SentenceEncoder({**FAMILIES["bert"], "hidden_size": 16}, tokenizer="toy").save_pretrained(tmp_path)
    weights = judgement(tmp_path, noise=torch.randn(3, 32), mask_noise=False)
    assert weights.shape == (8, 11)
    assert (weights[:, 8:] == 1).all()
