"""How good an encoder is: task suites, reports, training curves and monitors."""

from sentrep.evaluation.monitors import CollapseMonitor
from sentrep.evaluation.mteb_adapter import mteb_model
from sentrep.evaluation.plots.curves import plot_training_curves
from sentrep.evaluation.report import Evaluation
from sentrep.evaluation.results import TaskResult
from sentrep.evaluation.sts import (
    DEFAULT_SUITE,
    SENTEVAL_SETS,
    display_name,
    evaluate_sts,
)
from sentrep.evaluation.transfer import evaluate_transfer

__all__ = [
    "DEFAULT_SUITE",
    "SENTEVAL_SETS",
    "CollapseMonitor",
    "Evaluation",
    "TaskResult",
    "display_name",
    "evaluate_sts",
    "evaluate_transfer",
    "mteb_model",
    "plot_training_curves",
]
