from __future__ import annotations

import functools

import pytest
import torch

from sentrep import ProjectionHead
from sentrep.config import to_config


def test_to_config_goes_into_containers() -> None:
    config = to_config({"heads": [ProjectionHead("linear")], "optimizer": torch.optim.SGD})
    assert config == {
        "heads": [
            {
                "class_path": "sentrep.encoder.heads.ProjectionHead",
                "init_args": {"kind": "linear", "out_features": None},
            }
        ],
        "optimizer": {"class_path": "torch.optim.sgd.SGD"},
    }


def test_what_cannot_be_written_down_is_refused() -> None:
    with pytest.raises(TypeError, match="partial of a class"):
        to_config(lambda parameters: torch.optim.SGD(parameters, lr=1.0))
    with pytest.raises(TypeError):
        to_config(functools.partial(max, 1))
