"""Whatever stands in a configuration, `sentrep fit` trains or says in one sentence why not: fuzzing of whole trees."""

from __future__ import annotations

import contextlib
import copy
import io
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integration.bad_inputs.makers import PATCH, offline
from sentrep.cli import main
from sentrep.cli.recipe import merged, read
from support import write_workplace

RECIPES: dict[str, Any] = {
    "negatives": {
        "encoder": {
            "modules": ["Dense", "Normalize"], "compute": {"rows_at_once": 2},
            "trainable": {"class_path": "sentrep.encoder.Lora", "init_args": {"rank": 2}},
        },
        "objectives": {
            "simcse": {
                "negatives": {
                    "noise": "RefinedNoiseNegatives", "bank": {"class_path": "MemoryBank", "init_args": {"size": 8}},
                },
                "weighting": {"class_path": "SelfWeighting", "init_args": {"threshold": 0.9}},
            }
        },
        "optimizer": {"class_path": "sentrep.stability.SAM", "init_args": {"base_optimizer": "torch.optim.AdamW"}},
    },
    "tokens": {
        "encoder": {"prompt": {"template": "[X] means [MASK] .", "subtract": True}, "pooling": "mask"},
        "objectives": {
            "denoising": "Denoising", "words": "MaskedLanguageModeling",
            "shorter": {"class_path": "Matryoshka", "init_args": {"objective": "Contrastive", "dims": [8]}},
        },
        "weights": {"words": 0.5},
        "views": {"class_path": "EncodedViews", "init_args": {"augmentations": ["WordRepetition"]}},
        "head": None,
    },
}  # fmt: skip
"""Laid over the model of `write_workplace`; every key that a dump of it has is fuzzed."""

WRONG: list[Callable[[Any], Any]] = [
    lambda old: None, lambda old: True, lambda old: False, lambda old: [], lambda old: {}, lambda old: "",
    lambda old: " ", lambda old: "~nouser/x", lambda old: "a.b", lambda old: "\0", lambda old: "x" * 300,
    lambda old: "torch.nn.Linear", lambda old: "Uniformity", lambda old: 0, lambda old: -1, lambda old: 10**30,
    lambda old: float("nan"), lambda old: float("inf"), lambda old: 1e-30, lambda old: 0.5, lambda old: [old],
    lambda old: [None], lambda old: [[1]], lambda old: {"x": old}, lambda old: {"class_path": None},
    lambda old: {"class_path": "Uniformity"}, lambda old: {"class_path": "os.getcwd"}, lambda old: {"init_args": []},
    lambda old: {"class_path": "torch.nn.Linear", "init_args": {"in_features": 2, "out_features": 2}},
    lambda old: {**old, "x": 1} if isinstance(old, dict) else str(old),
]  # fmt: skip
"""What may come into the place of a value."""

SHORT = ["--trainer.max_steps=1", "--trainer.max_epochs=1", "--trainer.limit_val_batches=1", "--trainer.num_nodes=1"]
"""Settings that would only make a run longer, or wait for another machine."""

fuzz = settings(deadline=timedelta(minutes=5), suppress_health_check=list(HealthCheck), derandomize=True, database=None)


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a tree."""
    for key, below in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield (*path, key)
        yield from places(below, (*path, key))


def at(tree: Any, path: tuple[Any, ...]) -> Any:
    """The value of a path."""
    return at(tree[path[0]], path[1:]) if path else tree


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    """The whole configuration of each recipe, in a folder where they can be trained."""
    folder, former = tmp_path_factory.mktemp("fuzz"), Path.cwd()
    write_workplace(folder)
    os.chdir(folder)
    offline()
    dumps = []
    for model in RECIPES.values():
        tree = merged([read("run.yaml"), {"model": model}])
        Path("recipe.yaml").write_text(yaml.safe_dump(tree))
        status, dump, said = fit("-c", "recipe.yaml", "--print_config")
        assert status == 0, said
        dumps.append(yaml.safe_load(dump))
    yield dumps
    PATCH.undo()
    os.chdir(former)


def fit(*words: str) -> tuple[int, str, str]:
    """The exit status of `sentrep fit`, and what it writes to its standard output and error."""
    os.environ.pop("PL_GLOBAL_SEED", None)
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        status = main(["fit", *words])
    return status, out.getvalue(), err.getvalue()


@st.composite
def mutations(draw: st.DrawFn) -> Callable[[list[Any]], Any]:
    """One of the trees with one or two values that are others."""
    which = draw(st.integers(0, len(RECIPES) - 1))
    changes = draw(st.lists(st.tuples(st.integers(0, 10**4), st.sampled_from(WRONG)), min_size=1, max_size=2))

    def mutated(trees: list[Any]) -> Any:
        tree = copy.deepcopy(trees[which])
        for number, change in changes:
            found = list(places(tree))
            *above, key = found[number % len(found)]
            at(tree, tuple(above))[key] = change(at(tree, (*above, key)))
        return tree

    return mutated


def attempt(tree: Any, *flags: str) -> None:
    """Give a tree to `sentrep fit`: it does it, or says in one sentence why not."""
    Path("fuzzed.yaml").write_text(yaml.safe_dump(tree))
    status, out, said = fit("-c", "fuzzed.yaml", *flags)
    assert "Traceback" not in out + said
    if status != 0:
        assert status in (1, 2)
        assert said.splitlines()[-1].startswith("sentrep: error: "), said


@settings(fuzz, max_examples=4)
@given(mutation=mutations())
def test_any_tree_is_printed_or_refused(mutation: Callable[[list[Any]], Any], trees: list[Any]) -> None:
    attempt(mutation(trees), "--print_config")


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("flags", [["--print_config"], SHORT], ids=["printed", "trained"])
@settings(fuzz, max_examples=20)
@given(mutation=mutations())
def test_of_many_trees(flags: list[str], mutation: Callable[[list[Any]], Any], trees: list[Any]) -> None:
    attempt(mutation(trees), *flags)
