"""What the run of an adaptation has left: the course of its score, and what was trained on what."""

from __future__ import annotations

from pathlib import Path

from sentrep.evaluation.proxy import CRITERION
from sentrep.evaluation.runs import RunFolder
from sentrep.evaluation.selection import selected_step


def curve_of(run: Path) -> tuple[dict[str, float], ...]:
    """The proxy at every validation; step 0 is the untouched model."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run), size_guidance={"scalars": 0})
    events.Reload()
    logged = events.Scalars(f"val/{CRITERION}") if f"val/{CRITERION}" in events.Tags()["scalars"] else []
    began = events.FirstEventTimestamp() if logged else 0.0
    times = {0: 0.0, **{event.step: (event.wall_time - began) / 60 for event in logged}}
    courses = RunFolder(run, run.name).courses
    rows: dict[int, dict[str, float]] = {}
    for name, course in courses.items():
        if name.startswith(f"val/{CRITERION}"):
            for step, value in course:
                row = rows.setdefault(step, {"step": step, "minutes": round(times.get(step, 0.0), 2)})
                row[name.removeprefix("val/")] = value
    return tuple(rows[step] for step in sorted(rows))


def settings_of(run: Path, share: float) -> dict[str, str]:
    """What was trained on what."""
    asked = RunFolder(run, run.name)
    terms = {name: term["class_path"] for name, term in asked.setting("model.objectives").items() if term}
    return {
        "objectives": ", ".join(f"{name} ({kind.rpartition('.')[2]})" for name, kind in terms.items()),
        "learning rate": f"{asked.setting('model.optimizer.lr'):g}",
        "batch": str(asked.setting("data.batch_size")),
        "tokens of a training passage": str(asked.setting("model.encoder.max_length")),
        "training time at most": str(asked.setting("trainer.max_time")),
        "chosen step": str(selected_step(run)),
        "share of the trained weights": f"{share:g}",
        "seed": str(asked.setting("seed_everything")),
    }
