"""Pictures of runs, each a function that gives a matplotlib figure; `save_figure` writes it twice.

`new_figure`, `styled` and `legend_below` are for pictures of your own (``examples/figures/``).
"""

from sentrep.evaluation.plots.curves import plot_training_curves
from sentrep.evaluation.plots.style import legend_below, new_figure, save_figure, styled

__all__ = [
    "legend_below",
    "new_figure",
    "plot_training_curves",
    "save_figure",
    "styled",
]
