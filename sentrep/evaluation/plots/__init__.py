"""Pictures of runs and of encoders, each a function that gives a matplotlib figure; `save_figure` writes it twice."""

from sentrep.evaluation.plots.cosines import Histograms, draw_cosines, read_cosines
from sentrep.evaluation.plots.curves import draw_curves, plot_training_curves
from sentrep.evaluation.plots.encoders import draw_projection, draw_scores, project
from sentrep.evaluation.plots.negatives import NearestNegatives, draw_negatives, sample_nearest_negatives
from sentrep.evaluation.plots.plane import draw_plane
from sentrep.evaluation.plots.sentences import draw_before_after, draw_neighbours, draw_similarities
from sentrep.evaluation.plots.style import save_figure
from sentrep.evaluation.plots.sweep import Series, draw_sweep, sweep_series

__all__ = [
    "Histograms",
    "NearestNegatives",
    "Series",
    "draw_before_after",
    "draw_cosines",
    "draw_curves",
    "draw_negatives",
    "draw_neighbours",
    "draw_plane",
    "draw_projection",
    "draw_scores",
    "draw_similarities",
    "draw_sweep",
    "plot_training_curves",
    "project",
    "read_cosines",
    "sample_nearest_negatives",
    "save_figure",
    "sweep_series",
]
