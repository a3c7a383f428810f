"""Which recipe an untouched model gets."""

from __future__ import annotations

from typing import Any

import pytest

from sentrep.adaptation import choice


@pytest.mark.parametrize(("own", "recipe"), [(6.4, choice.FREE), (40.0, choice.HOLDS)])
def test_a_model_far_below_matching_words_has_nothing_to_hold_on_to(
    own: float, recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing: Any = None
    monkeypatch.setattr(choice, "word_matching", lambda tasks: {})
    monkeypatch.setattr(choice, "score_rankings", lambda tasks, found: {})
    monkeypatch.setattr(choice, "proxy_values", lambda scores: {"proxy": 43.0})
    monkeypatch.setattr(choice, "proxy", lambda tasks, candidate: own)
    found, why = choice.recipe_for(nothing, nothing)
    assert found == recipe
    assert f"{own}" in why
    assert "43.0" in why
    monkeypatch.setattr(choice, "word_matching", lambda tasks: None)
    assert choice.recipe_for(nothing, nothing)[0] == choice.HOLDS
