from __future__ import annotations

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest
import torch

import sentrep.types
from sentrep.types import TokenBatch

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference.md"


def test_concatenate_pads_to_the_longest() -> None:
    short = TokenBatch(torch.tensor([[5, 6]]), torch.tensor([[1, 1]]))
    long = TokenBatch(torch.tensor([[7, 8, 9]]), torch.tensor([[1, 1, 1]]))
    both = TokenBatch.concatenate([short, long], pad_token_id=3)
    assert both.input_ids.tolist() == [[5, 6, 3], [7, 8, 9]]
    assert both.attention_mask.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert len(both) == 2
    assert both.lengths is None


def test_concatenate_keeps_the_lengths_that_are_known() -> None:
    parts = [TokenBatch(torch.ones(1, n).long(), torch.ones(1, n).long(), np.array([n])) for n in (2, 3)]
    lengths = TokenBatch.concatenate(parts, pad_token_id=0).lengths
    assert lengths is not None
    assert lengths.tolist() == [2, 3]
    parts[1].lengths = None
    assert TokenBatch.concatenate(parts, pad_token_id=0).lengths is None


@pytest.mark.parametrize("name", ["Views", "EncoderOutput", "TextBatch", "TokenBatch", "EncoderSpec", "Need"])
def test_every_field_that_a_plugin_meets_says_what_it_is(name: str) -> None:
    """Below it: the page of reference shows a field by that."""
    assert f"::: sentrep.types.{name}" in REFERENCE.read_text(encoding="utf-8")
    (kind,) = ast.parse(inspect.getsource(getattr(sentrep.types, name))).body
    assert isinstance(kind, ast.ClassDef)
    for field, below in zip(kind.body, kind.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign):
            assert isinstance(below, ast.Expr), f"{name}.{ast.unparse(field.target)}"
