"""Any plug-in goes with any other: random combinations train, are saved, go on exactly, and are exported."""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from plugins import behind, objectives
from samplers import KINDS

from sentrep import SentenceEncoder
from sentrep.cli import main
from sentrep.cli.recipe import Tree, merged
from sentrep.config import to_config
from support import assert_same

APART = [
    {"PhraseReconstruction", "TokenDeletion"},
    {"prompt", "Distillation"},
    {"prompt", "ComplementaryWeighting"},
    {"Matryoshka", "Dense"},
]
"""Pairs of plug-ins that sentrep refuses to combine."""

Part = tuple[str, Tree]
"""The kind of a plug-in of which a run has only one, or an empty text, and the configuration that the plug-in adds."""

PROMPT = {"prompt": {"template": 'This "[X]" means [MASK].', "subtract": True}, "pooling": "mask"}
CLIPS = [(0.5, "norm"), (0.01, "value")]
BASE_OPTIMIZER = {"class_path": "torch.optim.AdamW", "init_args": {"lr": 1e-3, "fused": True}}


def plugin(name: str, **arguments: Any) -> Tree:
    return {"class_path": name, "init_args": arguments}


def sampler(name: str, **arguments: Any) -> Part:
    drawn = {"negatives": {name.lower(): plugin(name, **arguments)}}
    return "", {"model": {"objectives": {"contrastive": {"init_args": drawn}}}}


def weighting(name: str, **arguments: Any) -> Part:
    return "weighting", {
        "model": {"objectives": {"contrastive": {"init_args": {"weighting": plugin(name, **arguments)}}}}
    }


def augmentation(name: str, side: str = "augmentations", **arguments: Any) -> Part:
    return "", {"augment": {f"{side}.{name}": plugin(name, **arguments)}}


def encoder(group: str, **arguments: Any) -> Part:
    return group, {"model": {"encoder": arguments}}


def modules(*chain: Tree, **more: Tree) -> Part:
    return "modules", {"model": {"encoder": {"modules": list(chain)}, "objectives": more}}


def optimizer(name: str, **arguments: Any) -> Part:
    return "optimizer", {"model": {"optimizer": plugin(name, base_optimizer=BASE_OPTIMIZER, **arguments)}}


def objective_parts(teacher: str) -> Iterator[Part]:
    """One objective of each kind, without its samplers."""
    for name, make in objectives(teacher).items():
        if not name.startswith("contrastive") and not behind(name):
            tree: Tree = {"model": {"objectives": {re.sub(r"\W+", "_", name): to_config(make())}}}
            if name == "bidirectional margin":
                tree["data"] = {"train": "triplets.csv", "columns": ["sent0", "sent1", "hard_neg"]}
            yield "", tree


def parts(teacher: str) -> list[Part]:
    """Plug-ins of every kind, each once."""
    samplers = dict(reversed(KINDS.values()))  # the first of each class
    positives = ("GaussianNoise", "GaussianDropout", "BernoulliDropout", "FeatureDropout", "TokenCutoff", "SpanCutoff",
                 "FGSM", "WordRepetition", "TokenSwap")  # fmt: skip
    return [
        *objective_parts(teacher),
        *(sampler(name, **arguments) for name, arguments in samplers.items()),
        weighting("SelfWeighting", threshold=0.9),
        weighting("ComplementaryWeighting", model=teacher, threshold=0.9, mask_noise=False),
        *map(augmentation, positives),
        augmentation("TokenShuffling", "anchor_augmentations"),
        augmentation("TokenDeletion", "anchor_augmentations"),
        modules(plugin("Dense", activation="tanh", out_features=16), plugin("Normalize")),
        modules(plugin("ConvolutionalPooling", filters=16)),
        modules(plugin("Flow", steps=2), flow=plugin("FlowLikelihood")),
        encoder("backbone", trainable=["encoder.layer.*"]),
        encoder("backbone", trainable={"rank": 2}),
        encoder("rows", compute={"rows_at_once": 3}),
        encoder("layout", compute={"layout": "padded"}),
        *(("clip", {"trainer": {"gradient_clip_val": limit, "gradient_clip_algorithm": way}}) for limit, way in CLIPS),
        ("prompt", merged([encoder("", **PROMPT)[1], {"views": {"positive_prompt": '"[X]" is [MASK].'}}])),
        optimizer("SAM"),
        optimizer("AdversarialWeightPerturbation", gamma=1e-3),
    ]


def words(tree: Any) -> list[str]:
    """Keys and texts."""
    return re.findall(r"\w+", json.dumps(tree))


HANDS = 12


@functools.cache
def dealt(teacher: str) -> list[list[Part]]:
    """All parts in a random order, each in the shortest of `HANDS` combinations that may have it."""
    listed = parts(teacher)
    random.Random(1).shuffle(listed)
    hands: list[list[Part]] = [[] for _ in range(HANDS)]
    for group, tree in listed:
        free = [hand for hand in hands if not group or group not in dict(hand)]
        allowed = [hand for hand in free if not any(both <= {*words([hand, tree])} for both in APART)]
        min(allowed, key=len).append((group, tree))
    return hands


def configuration(trees: list[Tree]) -> Tree:
    tree = merged([{"model": {"objectives": {"contrastive": plugin("Contrastive")}}}, *trees])
    views: Tree = tree.pop("views", {})
    for name, one in tree.pop("augment", {}).items():
        views.setdefault(name.split(".")[0], []).append(one)
    tree["model"]["views"] = plugin("EncodedViews", **views)
    return {**tree, "seed_everything": 3}


@pytest.mark.slow
@pytest.mark.parametrize("number", range(HANDS))
def test_a_random_combination_trains_goes_on_and_is_exported(
    number: int, tiny: list[str], teacher: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = configuration([tree for _, tree in dealt(teacher)[number]])
    (tmp_path / "mixed.yaml").write_text(json.dumps(tree))
    plain = ["--data.train=corpus.txt"] if "train" not in tree.get("data", {}) else []
    precision = "bf16-mixed" if number % 2 else "32-true"
    words = ["fit", "-c", "mixed.yaml", *plain, *tiny, "--model.scheduler=constant", "--trainer.precision", precision]

    def fit(name: str, steps: int, *more: str) -> dict[str, Any]:
        status = main([*words, f"--trainer.max_steps={steps}", f"--trainer.logger.name={name}", *more])
        assert status == 0, f"{json.dumps(tree['model'])}\n{capsys.readouterr().err}"
        return torch.load(f"runs/{name}/version_0/checkpoints/last.ckpt", weights_only=True)["state_dict"]

    whole = fit("whole", 3)
    fit("halves", 2)
    halves = fit("halves", 3, "--ckpt_path=last")
    assert_same(halves, whole)
    assert all(value.isfinite().all() for value in whole.values() if isinstance(value, torch.Tensor))
    sentences = ["a sentence", "another one, of more words"]
    loaded = SentenceEncoder.from_pretrained("runs/whole/version_0/checkpoints/last.ckpt").encode(sentences)
    assert np.isfinite(loaded).all()
    exported = SentenceEncoder.from_pretrained("runs/whole/version_0/model").encode(sentences)
    np.testing.assert_allclose(exported, loaded, atol=1e-6)
