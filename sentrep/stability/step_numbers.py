"""The numbers of one optimiser step that tell whether it may be made."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from sentrep import distributed
from sentrep.io.files import write_text
from sentrep.types import StepTerms


class StepNumbers:
    """Losses, gradient and rows of one optimiser step; the numbers stay on the device until they are read.

    Args:
        earlier: rows of the pass before, where an optimiser computes its gradient twice.
    """

    def __init__(self, earlier: list[Tensor] | None = None) -> None:
        self._earlier = earlier or []
        self._own: list[Tensor] = []
        self._losses: list[Tensor] = []
        self._terms: dict[str, Tensor] = {}
        self._arrived: torch.cuda.Event | None = None

    @property
    def rows(self) -> list[Tensor]:
        """(B,) of each micro-batch; a pass at perturbed weights has none of its own."""
        return self._own or self._earlier

    def add(self, loss: Tensor, found: Iterable[StepTerms]) -> None:
        """Note one micro-batch."""
        self._losses.append(loss.detach().float())
        for terms in found:
            self._own.append(terms.rows)
            for name, term in terms.losses.items():
                self._terms[name] = self._terms.get(name, 0) + term.detach().float()

    @torch.no_grad()
    def measure(self, number: int, optimizer: Optimizer | None) -> None:
        """Put loss, gradient norm (without an optimiser 0), number of bad processes and terms into one tensor."""
        self.number = number
        loss = torch.stack(self._losses).sum()
        groups = [] if optimizer is None else optimizer.param_groups
        gradients = [p.grad for group in groups for p in group["params"] if p.grad is not None]
        norm = get_total_norm(gradients).float() if gradients else torch.zeros_like(loss)
        bad = distributed.total((~torch.stack([loss, norm]).isfinite()).any().float())
        self._found = torch.stack([loss, norm, bad, *self._terms.values()])

    def send_to_host(self) -> None:
        """Copy the numbers in the background, from a CUDA device."""
        if self._found.device.type == "cuda":
            host = torch.empty(len(self._found), pin_memory=True)
            self._found = host.copy_(self._found, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record()

    def problem(self) -> str | None:
        """A description of the values that are not finite on any process, or None."""
        if self._arrived is not None:
            self._arrived.synchronize()  # of an earlier step: the device works on the next one meanwhile
        self.loss, self.norm, processes, *terms = self._found.tolist()
        if not processes:
            return None
        # another process may be the one that found something
        what = f"loss is {self.loss}" if not math.isfinite(self.loss) else f"gradient's norm is {self.norm}"
        bad = [name for name, term in zip(self._terms, terms, strict=True) if not math.isfinite(term)]
        return f"{what} (objective {', '.join(bad)})" if bad else what

    def write(self, folder: Path) -> Path:
        """Write the rows of all processes; every process must call it."""
        with torch.no_grad():
            rows = [distributed.gather(rows).tolist() for rows in self.rows]
        file = folder / f"nonfinite-step={self.number}.json"
        if distributed.rank() == 0:
            # as text: JSON has no NaN
            content = {"step": self.number, "loss": str(self.loss), "gradient_norm": str(self.norm), "rows": rows}
            write_text(file, json.dumps(content) + "\n")
        return file
