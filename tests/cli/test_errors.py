"""Whose error it is: the settings' or the code's."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from sentrep.cli.errors import of_settings


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
