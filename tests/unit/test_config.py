from __future__ import annotations

import functools

import pytest
import torch

from sentrep.config import to_config


def test_what_cannot_be_written_down_is_refused() -> None:
    with pytest.raises(TypeError, match="partial of a class"):
        to_config(lambda parameters: torch.optim.SGD(parameters, lr=1.0))
    with pytest.raises(TypeError):
        to_config(functools.partial(max, 1))
