"""The runs behind ``sentrep compare``: trained and scored once each, however often the command is interrupted."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from sentrep import checks
from sentrep.cli.building import build
from sentrep.cli.configuration import whole_tree
from sentrep.cli.errors import UsageError
from sentrep.cli.fit import sort_words
from sentrep.cli.recipe import Tree, read
from sentrep.cli.run_folder import version_of
from sentrep.data import SentRepDataModule
from sentrep.data.files import is_blank, sentences_of
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.encoder import SentenceEncoder, fit_whitening
from sentrep.errors import InputError
from sentrep.evaluation.suites import SuiteSets, evaluate_suite, load_suite
from sentrep.io.bars import progress_bar
from sentrep.io.files import atomic_write, write_text
from sentrep.io.text import printable
from sentrep.training.run_report import MODEL

SCORES = "scores.npz"
"""File name of a finished run's cosines and gold scores of every set."""
TRAINED = "trained"
"""Marks a run whose training came to its end."""
WHITENING = 100_000
"""Sentences of the training text that a whitening is fitted on: the first ones, of all columns."""
INTERRUPTED = (130, 143)
"""Exit statuses of ``sentrep fit`` after Ctrl-C and SIGTERM."""


@dataclass(frozen=True)
class Run:
    """One run: a recipe under one seed."""

    label: str
    """The recipe's name, as the report prints it."""
    seed: int
    words: list[str]
    """The words after ``sentrep fit``, without the folder."""
    folder: Path
    untrained: bool | str = False
    """Whether its encoder is scored as it is; ``whitened``: after a whitening on the training text."""
    content: str = ""
    """Hash of the text, the models and the classes behind its words, see `content_of`."""
    pairs: str = ""
    """Hash of the pairs and gold scores that score it, see `pairs_of`."""

    def settings(self, wanted: Wanted) -> dict[str, Any]:
        """The identity of a run in its folder: a hash of its words, and the hashes of its content and pairs."""
        digest = hashlib.blake2b(digest_size=16)
        for flag, word in zip(["", *self.words], self.words, strict=False):
            digest.update(Path(word).read_bytes() if flag == "-c" else word.encode())
        untrained = {"untrained": self.untrained} if self.untrained else {}
        behind = {"content": self.content, "pairs": self.pairs}
        return {"recipe": digest.hexdigest(), **behind, **wanted.settings(), **untrained}


@dataclass(frozen=True)
class Wanted:
    """The suite and the sets that score the runs; one run can be scored on several suites in turn."""

    suite: str = "sts"
    request: SuiteSets = field(default_factory=SuiteSets)
    """Without sets: of similarity each recipe's own ``data.test``, of another suite its default."""

    @property
    def suffix(self) -> str:
        """What ends the names of a suite's files: nothing for similarity."""
        return "" if self.suite == "sts" else f"-{self.suite}"

    @property
    def scores(self) -> str:
        """File name of a finished run's scores."""
        return SCORES.replace(".", f"{self.suffix}.")

    def request_for(self, data: Tree) -> SuiteSets:
        """With the recipe's own sets where no others are given, and its folder of the SentEval data.

        Raises:
            InputError: there are no sets of similarity, or ``data`` is not in order.
        """
        own = data.get("sts_folder") if self.suite in ("sts", "transfer") else None
        request = replace(self.request, sts_folder=own)
        if self.suffix or request.sets is not None:
            return request
        if not (sets := build(SentRepDataModule, "data", data).test):
            raise UsageError("it has no data.test; name the sets by --sets [sts12,stsb]")
        return replace(request, sets=sets)

    def settings(self) -> dict[str, Any]:
        """What tells these scores from others of the same suite."""
        given = {key: value for key, value in asdict(self.request).items() if value is not None}
        return {"suite": self.suite, **given} if self.suffix else {"sets": None, **given}


def train_all(runs: Sequence[Run], wanted: Wanted, jobs: int = 1) -> dict[tuple[str, int], str]:
    """Train and score the missing runs, ``jobs`` at a time; return the reasons of failed runs."""
    _refuse_other_settings(runs, wanted)
    failures: dict[tuple[str, int], str] = {}
    console = Console(stderr=True)
    with ThreadPoolExecutor(jobs) as pool, progress_bar(console) as bar:
        task = bar.add_task("Comparing", total=len(runs), note="")
        futures = {pool.submit(_train_and_score, run, wanted, jobs): run for run in runs}
        try:
            for future in as_completed(futures):
                run, reason = futures[future], future.result()
                bar.advance(task)
                console.print(printable(f"{run.label}, seed {run.seed}: {reason or 'done'}"), markup=False)
                if reason:
                    failures[run.label, run.seed] = reason
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return failures


def _refuse_other_settings(runs: Sequence[Run], wanted: Wanted) -> None:
    """Refuse to mix runs of different settings, before anything is trained; note the settings of each."""
    notes = {run.folder / f"settings{wanted.suffix}.json": run.settings(wanted) for run in runs}
    for note, settings in notes.items():
        for other in note.parent.glob("settings*.json") if _has_results(note.parent) else ():
            found = json.loads(other.read_text(encoding="utf-8"))
            if found["recipe"] != settings["recipe"] or (other == note and found["sets"] != settings["sets"]):
                raise UsageError(
                    f"compare: {note.parent} holds a run with other settings; choose another --output, or delete it"
                )
            changed = {"content": "its text, its model or a class of yours", "pairs": "the pairs or scores of a set"}
            for key, what in changed.items():
                if (key == "content" or other == note) and found[key] != settings[key]:
                    raise UsageError(
                        f"compare: {note.parent} holds a run from before {what} changed; choose another --output, or "
                        "delete it"
                    )
    for note, settings in notes.items():
        write_text(note, json.dumps(settings))


def _has_results(folder: Path) -> bool:
    """Whether a run has left anything that one with other settings must not be mixed with."""
    return any((*folder.glob(TRAINED), *folder.glob(SCORES.replace(".", "*.")), *folder.rglob("*.ckpt")))


def _train_and_score(run: Run, wanted: Wanted, jobs: int) -> str | None:
    """One run to its end, unless it has been there; returns why it failed."""
    if (run.folder / wanted.scores).exists():
        return None
    return (None if run.untrained else _train(run, jobs)) or _score(run, wanted)


def _train(run: Run, jobs: int) -> str | None:
    """Run ``sentrep fit``, from its last checkpoint and in its folder where it was begun; returns why it failed."""
    if (run.folder / TRAINED).exists():
        return None
    words = [*run.words, "--trainer.logger.save_dir", str(run.folder), "--trainer.enable_progress_bar", "false"]
    if any(run.folder.rglob("*.ckpt*")) or not any(word.startswith("--ckpt_path") for word in run.words):
        words += ["--ckpt_path", "last"]  # in the same folder, so that the best checkpoint so far is remembered
    log = run.folder / "fit.log"
    share = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // jobs))} if jobs > 1 else {}
    with log.open("ab") as output:
        command = [sys.executable, "-m", "sentrep", "fit", *words]
        done = subprocess.run(command, stdout=output, stderr=output, env={**share, **os.environ})
    if done.returncode == 0:
        (run.folder / TRAINED).touch()
        return None
    if done.returncode in INTERRUPTED:
        raise KeyboardInterrupt
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"training failed ({last[-1] if last else 'no message'}); see {log}"


def tree_of(run: Run) -> Tree:
    """The whole configuration of a run."""
    layers, flags, own = sort_words(run.words)
    return whole_tree("fit", layers, flags, {key: value for key, value in own.items() if key != "ckpt_path"})[0]


def _trained(folder: Path, tree: Tree) -> SentenceEncoder:
    """The run's model; classes that its recipe names behind the pooling have been run by its training already."""
    own = bool(tree.get("model", {}).get("encoder", {}).get("modules"))
    return SentenceEncoder.from_pretrained(folder, trust_remote_code=own).to(_device())


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _score(run: Run, wanted: Wanted) -> str | None:
    """Evaluate the model and write its scores; returns why that failed."""
    tree = tree_of(run)
    models = sorted(run.folder.glob(f"*/version_*/{MODEL}"), key=lambda path: version_of(path.parent))
    if not models and not run.untrained:
        return f"training left no folder {MODEL}/; do not switch the report off (--report)"
    try:
        encoder = _untrained(run, tree) if run.untrained else _trained(models[-1], tree)
        sets = load_suite(wanted.suite, wanted.request_for(tree.get("data", {})))
        arrays = _suite_scores(encoder, wanted.suite, sets) if wanted.suffix else _cosines(encoder, sets)
    except InputError as error:
        return f"evaluation failed: {error}"
    with atomic_write(run.folder / wanted.scores) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # NumPy 2.1 has no argument allow_pickle
    return None


def _cosines(encoder: SentenceEncoder, sets: Sequence[ScoredPairs]) -> dict[str, np.ndarray]:
    """The cosines of the pairs of similarity sets, and their gold scores."""
    arrays: dict[str, np.ndarray] = {}
    for pairs in sets:
        arrays[f"cosine/{pairs.name}"] = encoder.pairwise_cosine(pairs.first, pairs.second, batch_size=64).numpy()
        arrays[f"gold/{pairs.name}"] = np.asarray(pairs.scores, dtype=np.float64)
    return arrays


def _suite_scores(encoder: SentenceEncoder, suite: str, sets: Sequence[Any]) -> dict[str, np.ndarray]:
    """The main score of each set, by metric and name."""
    found = evaluate_suite(suite, encoder, sets, show_progress_bar=False)
    return {f"{next(iter(task.scores))}/{task.name}": np.array(task.main_score) for task in found}


def untrained_encoder(run: Run, tree: Tree) -> SentenceEncoder:
    """The encoder of a row that trains nothing, by its configuration."""
    own = read(run.words[1])  # such rows differ in their pooling, so nothing overrides it
    tree["model"]["encoder"].update(checks.given(pooling=own["model"]["encoder"].get("pooling")))
    torch.manual_seed(tree["seed_everything"])  # of weights that are not loaded
    return build(SentenceEncoder, "encoder", tree["model"]["encoder"])


def _untrained(run: Run, tree: Tree) -> SentenceEncoder:
    """The encoder of a configuration as it is, or after a whitening on its training text."""
    encoder = untrained_encoder(run, tree).to(_device())
    if run.untrained == "whitened":
        data = build(SentRepDataModule, "data", tree["data"])
        rows = (row for row in map(sentences_of, data.text().rows) if not is_blank(row))
        fit_whitening(encoder, islice(chain.from_iterable(rows), WHITENING), show_progress_bar=False)
    return encoder.eval()
