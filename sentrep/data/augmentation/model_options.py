"""Options of the translation models; the command line reads them, so nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sentrep import checks


@dataclass(frozen=True)
class Generation:
    """How the models translate.

    Raises:
        InputError: a value is out of range.
    """

    beams: int = 4
    """width of the beam search; 1 is greedy. Without effect when sampling."""
    sample: bool = False
    """draw the translations instead of searching for the best: more varied and less faithful."""
    temperature: float = 1.0
    """of the sampling."""
    top_p: float = 1.0
    """of the sampling; 1 draws from the whole distribution."""
    seed: int = 0
    """of the sampling; a batch is drawn from it and the first row of the batch."""
    max_tokens: int = 256
    """longer sentences are left out, as are those above the model's own limit."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """float32, bfloat16, float16, or auto: bfloat16 on a GPU that has it, float32 elsewhere."""

    def __post_init__(self) -> None:
        checks.positive("generation", temperature=self.temperature)
        checks.within("generation", 0, 1, open_below=True, top_p=self.top_p)
