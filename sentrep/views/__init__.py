"""How positives are made."""

from sentrep.views.base import ViewMaker
from sentrep.views.encoded import EncodedViews

__all__ = ["EncodedViews", "ViewMaker"]
