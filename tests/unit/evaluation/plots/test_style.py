"""The look of all pictures, and the two files of each."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import pytest

from sentrep.errors import InputError
from sentrep.evaluation.plots import new_figure, save_figure


def test_settings_of_matplotlib_are_left_alone_and_bad_places_are_named(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    figure = new_figure(1)
    figure.subplots().plot([1.0, 2.0])
    save_figure(figure, tmp_path / "curves")
    assert dict(matplotlib.rcParams) == before
    with pytest.raises(InputError, match="cannot be written"):
        save_figure(figure, tmp_path / "curves.png" / "below")
