"""jsonargparse's accounts, shortened."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from sentrep.cli.errors import of_settings, summarize

NESTED = """Parser key "model.objectives":
  Does not validate against any of the Union subtypes
  Subtypes: [<class 'my.Objective'>, <class 'NoneType'>]
  Errors:
    - Problem with given class_path 'my.Contrastive':
        Parser key "negatives":
          Does not validate against any of the Union subtypes
          Subtypes: [dict[str, my.Sampler | None], <class 'NoneType'>]
          Errors:
            - Problem with given class_path 'my.Gaussian':
                Parser key "ratio":
                  Expected a <class 'float'>. Got value: a
            - Expected a <class 'NoneType'>
          Given value type: <class 'dict'>
          Given value: {'g': {'class_path': 'Gaussian', 'init_args': {'ratio': 'a'}}}
    - Expected a <class 'NoneType'>
  Given value type: <class 'dict'>
  Given value: {'class_path': 'Contrastive'}
"""

UNION = """Parser key "trainer.logger":
  Does not validate against any of the Union subtypes
  Subtypes: [<class 'lightning.Logger'>, <class 'bool'>, <class 'NoneType'>]
  Errors:
    - Expected a <class 'bool'>
  Given value type: <class 'str'>
  Given value: maybe
"""


def test_the_deepest_key_is_found_and_its_whole_path_shown() -> None:
    tree = {
        "model": {
            "objectives": {
                "simcse": {
                    "class_path": "Contrastive",
                    "init_args": {"negatives": {"g": {"class_path": "Gaussian", "init_args": {"ratio": "a"}}}},
                }
            }
        }
    }
    assert summarize(NESTED, tree) == "model.objectives.simcse.negatives.g.ratio: expected float, got 'a'"


def test_a_union_is_listed() -> None:
    assert summarize(UNION, {}) == "trainer.logger: expected Logger or bool or null, got 'maybe'"


def test_anything_else_is_left_as_it_is() -> None:
    assert summarize("the following arguments are required: model", {}) == "the following arguments are required: model"


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("sentrep.cli.trainer lightning.pytorch.cli torch.autograd", True),
        ("sentrep.cli.trainer lightning.pytorch.cli my_objective torch", False),
        ("sentrep.cli.trainer lightning.pytorch.cli sentrep.module torch", False),
        ("sentrep.cli.trainer lightning.pytorch.cli sentrep.cli.callbacks pathlib", False),
    ],
)
def test_an_error_of_settings_is_lightnings_alone(way: str, expected: bool) -> None:
    call: Any = functools.partial(int, "x")
    for module in reversed(way.split()):
        names = {"__name__": module, "call": call}
        exec("def step(): call()", names)
        call = names["step"]
    with pytest.raises(ValueError, match="invalid literal") as caught:
        call()
    assert of_settings(caught.value.with_traceback(caught.tb.tb_next)) is expected
