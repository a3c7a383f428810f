"""Checks of a comparison before its first run trains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sentrep.cli.building import build
from sentrep.cli.configuration import Request, Tree, parse_request
from sentrep.cli.errors import UsageError
from sentrep.cli.sections import build_tree
from sentrep.cli.seeded_runs import Run, Wanted, untrained_encoder
from sentrep.config import walk
from sentrep.data import SentRepDataModule
from sentrep.data.sets.sts import not_at_hand
from sentrep.errors import InputError
from sentrep.evaluation.suites import load_suite
from sentrep.module import SentRepModule


def check_runs(runs: Sequence[Run], wanted: Wanted) -> None:
    """Check each recipe whose runs are not all scored yet, then open its models, text and sets, once for all seeds.

    Raises:
        InputError: names the recipe and its mistake.
    """
    left = {run.label: run for run in runs if not (run.folder / wanted.scores).exists()}.values()
    read: list[tuple[Run, Request, Tree]] = []
    for run in left:
        with _naming(run):
            read.append((run, *_read(run)))
    opened: set[str] = set()
    for run, request, tree in read:
        with _naming(run):
            _open(run, request, tree, wanted, opened)


@contextmanager
def _naming(run: Run) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise type(error)(f"compare, {run.label}: {error}") from None


def _read(run: Run) -> tuple[Request, Tree]:
    request = parse_request(run.words)
    tree = build_tree("fit", request, None)
    if str(dict(walk(tree)).get("model.encoder.compute.compile")).lower() in ("true", "reduce-overhead"):
        raise UsageError(
            "it compiles its passes (model.encoder.compute.compile), and compiled rows do not share their noise; leave "
            "compile out"
        )
    return request, tree


def _open(run: Run, request: Request, tree: Tree, wanted: Wanted, opened: set[str]) -> None:
    sets = wanted.request_for(tree.get("data", {}))
    if str(sets) not in opened:  # loading the sets of a benchmark takes minutes
        load_suite(wanted.suite, sets)
        opened.add(str(sets))
    _open_data(run, tree)
    if run.untrained:
        untrained_encoder(run, tree)
    elif not request.rest and request.get("ckpt_path") is None:  # these two change the model that is built
        build(SentRepModule, "model", tree["model"]).load_frozen()


def _open_data(run: Run, tree: Tree) -> None:
    data = build(SentRepDataModule, "data", tree.get("data", {}))
    if run.untrained is not True:
        next(data.training_text().rows(), None)
    if not run.untrained:
        missing = not_at_hand(data.val) if data.sts_folder is None else {}  # a run trains without them
        data.val = [spec for spec in data.val if str(spec) not in missing]
        if data.val:
            data.setup("validate")
