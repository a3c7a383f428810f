"""The look of all pictures, and the two files of each."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import matplotlib.image
import pandas as pd
import pytest

from sentrep.errors import InputError
from sentrep.evaluation.plots import save_figure
from sentrep.evaluation.plots.curves import draw_training_curves

HISTORY = pd.DataFrame({"train/loss": [2.0, 1.0], "val/sts": [50.0, 60.0]}, index=[10, 20])


def test_settings_of_matplotlib_are_left_alone_and_bad_places_are_named(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    figure = draw_training_curves(HISTORY)
    save_figure(figure, tmp_path / "curves")
    assert dict(matplotlib.rcParams) == before
    with pytest.raises(InputError, match="cannot be written"):
        save_figure(figure, tmp_path / "curves.png" / "below")
