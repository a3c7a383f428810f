"""The outcome of an adaptation: the numbers of the terminal and the report."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from sentrep.evaluation.history import MINUTES
from sentrep.evaluation.proxy import CRITERION
from sentrep.evaluation.runs import RunFolder
from sentrep.evaluation.selection import selected_step
from sentrep.reports.document import Change

Verdict = Literal["better", "not better", "cannot be told"]


@dataclass(frozen=True)
class Estimate:
    """A score x 100 with its 95 % interval (bootstrap over documents)."""

    value: float
    low: float
    high: float


@dataclass(kw_only=True)
class Adaptation:
    """The whole outcome, filled during the command; later parts stay empty until then."""

    verdict: Verdict = "cannot be told"
    sentence: str = ""
    """The verdict in one sentence."""
    advice: tuple[str, ...] = ()
    """Limits of the verdict and possible next steps, a sentence each."""
    backbone: str
    """The untouched model."""
    text: str
    """The text that the model was adapted to."""
    folder: str | None = None
    """Folder of the exported model; None if nothing was exported."""
    documents: int
    passages: int = 0
    pairs: int = 0
    """Pairs to train on."""
    seen: int = 0
    """Pairs that training has seen, repetitions included; sentences for a text without structure."""
    tasks: pd.DataFrame = field(default_factory=pd.DataFrame)
    """A row for each held-out task, see `sentrep.adaptation.verdict.compare_tasks`."""
    curve: tuple[dict[str, float], ...] = ()
    """Rows: step, minutes, proxy, and proxy/<task>; step 0 is the untouched model."""
    interpolation: tuple[tuple[float, float], ...] = ()
    """(share of the trained weights, proxy of every second document's questions)."""
    lexical: tuple[tuple[float, float], ...] = ()
    """(weight of matching words, proxy), at the best share."""
    neighbours: tuple[Change, ...] = ()
    """The nearest passages of a few sentences."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds of each part of the command."""
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of the training, shown as a table."""

    def record(self) -> dict[str, Any]:
        """The outcome for JSON."""
        return {**asdict(self), "tasks": self.tasks.to_dict("records")}

    def take_from(self, folder: Path) -> None:
        """Take the settings, the number of seen pairs and the score of every validation from a run."""
        run = RunFolder(folder, folder.name)
        terms = {name: term["class_path"] for name, term in run.setting("model.objectives").items() if term}
        batch = run.setting("data.batch_size")
        self.settings |= {
            "objectives": ", ".join(f"{name} ({kind.rpartition('.')[2]})" for name, kind in terms.items()),
            "learning rate": f"{run.setting('model.optimizer.lr'):g}",
            "batch": str(batch),
            "tokens of a training passage": str(run.setting("model.encoder.max_length")),
            "chosen step": str(selected_step(folder)),
            "seed": str(run.setting("seed_everything")),
        }
        self.seen = int(run.metrics.index.max() * batch * run.setting("trainer.accumulate_grad_batches"))
        scores = run.metrics.filter(regex=f"^val/{CRITERION}").dropna(how="all").rename(columns=lambda name: name[4:])
        minutes = run.metrics.reindex(columns=[MINUTES])[MINUTES].fillna(0).round(2)
        self.curve = tuple(
            {"step": int(step), "minutes": minutes[step], **row.dropna()} for step, row in scores.iterrows()
        )
