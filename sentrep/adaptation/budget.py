"""How much of a text can be used in the minutes of an adaptation, by the untouched model's speed of reading."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sentrep.io.files import write_text

_FILE = "budget.json"
SAMPLE, _WARM = 112, 16
"""Passages that measure the speed, and how many of them come first, for the set-up, and are not counted."""
_READING = 0.7
"""Share of the minutes beside training that reading may take: the rest is for loading, tokenising and search."""
_PASSAGES, _CHOOSE, _JUDGE, _DISTRACTORS = 0.2, 0.3, 0.25, 0.15
"""Shares of that reading. The missing tenth is for the queries of the pairs."""
_CHOICES, _JUDGEMENTS = 20, 5
"""Passages that are read for one document. A document that chooses is read in two parts and with its questions, by the
untouched model, at each validation and by the mixtures; a document that judges is read by two models."""
_PAIR = 4
"""Passages that are read in the time of one training pair, with its hard negative and its teacher."""
_LEAST = {"passages": 500, "pairs": 1000, "choose": 60, "judge": 120, "distractors": 500}
"""Smaller numbers teach and show nothing, however short the time."""
_MOST = {"distractors": 5000}


@dataclass(frozen=True)
class Budget:
    """The largest numbers for the minutes of training; the whole command takes twice these minutes."""

    passages: int
    """Passages to train on, and to mine hard negatives in."""
    pairs: int
    """Pairs that training can reach; hard negatives are mined for them."""
    choose: int
    """Documents to choose by."""
    judge: int
    """Documents to judge by."""
    distractors: int
    """Passages of other documents that a judged query must not find."""

    @classmethod
    def allowed(cls, speed: float, minutes: float) -> Budget:
        """The budget of a model that reads ``speed`` passages a second.

        Examples:
            >>> Budget.allowed(40, 5)
            Budget(passages=1680, pairs=3000, choose=126, judge=420, distractors=1260)
        """
        whole = speed * 60 * minutes
        reading = _READING * whole
        counts = {
            "passages": _PASSAGES * reading,
            "pairs": whole / _PAIR,
            "choose": _CHOOSE * reading / _CHOICES,
            "judge": _JUDGE * reading / _JUDGEMENTS,
            "distractors": _DISTRACTORS * reading,
        }
        return cls(**{name: max(_LEAST[name], min(int(n), _MOST.get(name, int(n)))) for name, n in counts.items()})

    @classmethod
    def of(cls, folder: Path, read: Callable[[Sequence[str]], object], texts: Sequence[str], minutes: float) -> Budget:
        """The budget of an adaptation, measured once and kept, so that an interrupted adaptation uses the same pairs.

        Args:
            folder: holds ``budget.json``.
            read: encodes texts.
            texts: `SAMPLE` passages, or all of a smaller text.
            minutes: of training.
        """
        file = folder / _FILE
        if file.exists():
            return cls(**json.loads(file.read_text(encoding="utf-8")))
        read(texts[:_WARM])
        began = time.perf_counter()
        read(texts)  # the first passages are remembered
        budget = cls.allowed(max(1, len(texts) - _WARM) / (time.perf_counter() - began), minutes)
        budget.write(folder)
        return budget

    def write(self, folder: Path) -> None:
        """Write the budget for `of`."""
        write_text(folder / _FILE, json.dumps(asdict(self)))
