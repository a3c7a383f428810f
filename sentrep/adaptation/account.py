"""What the run of an adaptation has left: the course of its score, and what was trained on what."""

from __future__ import annotations

from pathlib import Path

from sentrep.evaluation.history import MINUTES
from sentrep.evaluation.proxy import CRITERION
from sentrep.evaluation.runs import RunFolder
from sentrep.evaluation.selection import selected_step


def curve_of(run: Path) -> tuple[dict[str, float], ...]:
    """The proxy at every validation; step 0 is the untouched model."""
    courses = RunFolder(run, run.name).courses
    minutes = dict(courses.get(MINUTES, ()))
    rows: dict[int, dict[str, float]] = {}
    for name, course in courses.items():
        for step, value in course if name.startswith(f"val/{CRITERION}") else ():
            row = rows.setdefault(step, {"step": step, "minutes": round(minutes.get(step, 0.0), 2)})
            row[name.removeprefix("val/")] = value
    return tuple(rows[step] for step in sorted(rows))


def seen(run: Path) -> int:
    """Rows of its text that a run has come to, again ones included."""
    asked = RunFolder(run, run.name)
    steps = max(step for course in asked.courses.values() for step, _ in course)
    return int(steps * asked.setting("data.batch_size") * asked.setting("trainer.accumulate_grad_batches"))


def settings_of(run: Path) -> dict[str, str]:
    """How was trained."""
    asked = RunFolder(run, run.name)
    terms = {name: term["class_path"] for name, term in asked.setting("model.objectives").items() if term}
    return {
        "objectives": ", ".join(f"{name} ({kind.rpartition('.')[2]})" for name, kind in terms.items()),
        "learning rate": f"{asked.setting('model.optimizer.lr'):g}",
        "batch": str(asked.setting("data.batch_size")),
        "tokens of a training passage": str(asked.setting("model.encoder.max_length")),
        "chosen step": str(selected_step(run)),
        "seed": str(asked.setting("seed_everything")),
    }
