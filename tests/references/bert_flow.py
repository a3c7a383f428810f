"""BERT-flow's likelihood, with the determinant of the whole Jacobian."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def flow_loop(x: Tensor, steps: list[dict[str, Any]]) -> Tensor:
    """z of one vector x (D,), dimension by dimension; the parameters of each step by name."""
    for step in steps:
        moved = [(x[d] + step["shift"][d]) * torch.exp(step["log_scale"][d]) for d in range(len(x))]
        y = [moved[int(d)] for d in step["permutation"]]
        half = len(y) // 2
        hidden = torch.relu(step["inner.weight"] @ torch.stack(y[:half]) + step["inner.bias"])
        out = step["outer.weight"] @ hidden + step["outer.bias"]
        rest = len(y) - half
        z = y[:half]
        for d in range(rest):
            z.append((y[half + d] + out[d]) / (1 + torch.exp(-(out[rest + d] + 2))))
        x = torch.stack(z)
    return x


def negative_log_likelihood_loop(rows: Tensor, steps: list[dict[str, Any]]) -> Tensor:
    """−mean of log N(f(x); 0, I) + log |det ∂f/∂x|."""
    total = torch.zeros((), dtype=rows.dtype)
    for x in rows:
        z = flow_loop(x, steps)
        jacobian: Any = torch.autograd.functional.jacobian(lambda v: flow_loop(v, steps), x, create_graph=True)
        normal = sum(-0.5 * z[d] ** 2 - 0.5 * math.log(2 * math.pi) for d in range(len(z)))
        total = total - normal - torch.log(torch.abs(torch.det(jacobian)))
    return total / len(rows)
