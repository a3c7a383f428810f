"""How good an encoder is: similarity sets, reports, training curves and monitors."""

from sentrep.evaluation.curves import plot_training_curves
from sentrep.evaluation.monitors import CollapseMonitor
from sentrep.evaluation.report import Evaluation, print_results, write_report
from sentrep.evaluation.sts import (
    DEFAULT_SUITE,
    SENTEVAL_SETS,
    STSResult,
    display_name,
    evaluate_sts,
    senteval_average,
)
from sentrep.evaluation.training_report import TrainingReport

__all__ = [
    "DEFAULT_SUITE",
    "SENTEVAL_SETS",
    "CollapseMonitor",
    "Evaluation",
    "STSResult",
    "TrainingReport",
    "display_name",
    "evaluate_sts",
    "plot_training_curves",
    "print_results",
    "senteval_average",
    "write_report",
]
