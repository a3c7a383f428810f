"""What the runs of a comparison would end with, found before the first one trains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sentrep.cli.building import build
from sentrep.cli.check import check_names
from sentrep.cli.configuration import Tree, parse_request
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
        InputError: says which recipe it is, and what is wrong.
    """
    left = {run.label: run for run in runs if not (run.folder / wanted.scores).exists()}.values()
    for run in left:
        with _naming(run):
            _check_settings(run)
    opened: set[str] = set()
    for run in left:
        with _naming(run):
            _open(run, wanted, opened)


@contextmanager
def _naming(run: Run) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise type(error)(f"compare, {run.label}: {error}") from None


def _check_settings(run: Run) -> None:
    request = parse_request(run.words)
    tree = build_tree("fit", request, None)
    check_names(tree, request)
    if str(dict(walk(tree)).get("model.encoder.compute.compile")).lower() in ("true", "reduce-overhead"):
        raise UsageError(
            "it compiles its passes (model.encoder.compute.compile), and compiled rows do not share their noise; leave "
            "compile out"
        )


def _open(run: Run, wanted: Wanted, opened: set[str]) -> None:
    request = parse_request(run.words)
    tree = build_tree("fit", request, None)
    sets = wanted.request_for(tree.get("data", {}))
    if str(sets) not in opened:  # those of a benchmark take a while
        load_suite(wanted.suite, sets)
        opened.add(str(sets))
    _open_data(run, tree)
    if run.untrained:
        untrained_encoder(run, tree)
    elif not request.rest and request.get("ckpt_path") is None:  # which add to what is built
        build(SentRepModule, "model", tree["model"]).load_frozen()


def _open_data(run: Run, tree: Tree) -> None:
    data = build(SentRepDataModule, "data", tree.get("data", {}))
    if run.untrained is not True:
        next(data.training_text().rows(), None)
    if not run.untrained:
        missing = not_at_hand(data.val) if data.sts_folder is None else {}  # without which a run trains all the same
        data.val = [spec for spec in data.val if str(spec) not in missing]
        if data.val:
            data.setup("validate")
