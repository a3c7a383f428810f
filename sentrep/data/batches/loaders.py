"""Loaders: training batches that can stop and resume at any batch, evaluation sets, sentences to encode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch
from datasets import IterableDataset
from lightning_utilities.core.apply_func import apply_to_collection
from torch.utils.data import DataLoader

from sentrep.data.batches.sampler import BatchOrder
from sentrep.data.files import sentences_of
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.data.tokens import RowTokenizer, TokenizedText
from sentrep.errors import InputError
from sentrep.io.chunks import chunks_of
from sentrep.types import TextBatch


class ResumableLoader:
    """Training batches, with a state from which another process continues at the next batch.

    It is not a ``DataLoader``, so Lightning puts no sampler of its own into it, whatever ``use_distributed_sampler``
    says; Lightning saves and restores its state with the checkpoint and sets the sampler's epoch.

    Args:
        corpus: maps an element of the sampler to rows of token ids.
        sampler: the rows of each batch.
        collate: makes a batch of rows.
        num_workers: processes that prepare batches ahead; 0 means in this process.
        pin_memory: put batches into page-locked memory for the copy to a GPU.
        fingerprint: of the corpus; a state of another corpus is refused.
        completed: how many batches of the epoch the trainer has completed. A batch that was delivered but whose step
            failed is delivered again on resume. None means that all delivered batches count.
    """

    def __init__(
        self,
        corpus: TokenizedText | RowTokenizer,
        sampler: BatchOrder,
        collate: Callable[[Any], TextBatch],
        *,
        num_workers: int = 0,
        pin_memory: bool = False,
        fingerprint: str = "",
        completed: Callable[[], int] | None = None,
    ) -> None:
        self.sampler = sampler
        self._pin_memory = pin_memory
        self._fingerprint = fingerprint
        self._completed = completed
        self._resuming = False
        self._loader: DataLoader[Any] = DataLoader(
            corpus,  # type: ignore[arg-type]  # it gives the rows of a batch at once
            sampler=sampler,
            batch_size=None,
            collate_fn=collate,
            num_workers=num_workers,
            persistent_workers=num_workers > 0,
            generator=torch.Generator(),  # else every pass would draw from the global stream and shift the dropout
        )

    def __len__(self) -> int:
        return len(self.sampler)  # type: ignore[arg-type]  # TypeError for an unknown length, as lightning expects

    def __iter__(self) -> Iterator[TextBatch]:
        if not self._resuming:
            self.sampler.done = 0
        self._resuming = False
        for batch in self._loader:
            self.sampler.done += 1
            yield apply_to_collection(batch, torch.Tensor, torch.Tensor.pin_memory) if self._pin_memory else batch

    def state_dict(self) -> dict[str, Any]:
        """Epoch, completed batches, and the settings of the order."""
        done = self.sampler.done if self._completed is None else min(self.sampler.done, self._completed())
        return {
            "epoch": self.sampler.epoch,
            "done": done,
            "skipped": self.sampler.skipped,
            "order": self.order(),
            "place": self.sampler.place(done),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after the last completed batch of a state.

        Raises:
            InputError: corpus, batch size, number of processes, seed or fraction differ, so that the order would too.
        """
        here, saved = self.order(), state["order"]
        other = [name for name in {**saved, **here} if saved.get(name) != here.get(name)]
        if other:
            changed = ", ".join(f"{name} was {saved.get(name)} and is {here.get(name)}" for name in other)
            problem = f"cannot resume in the middle of this training: {changed}"
            raise InputError(f"{problem}; use the same values, or begin the epoch again by --allow-changes")
        self.sampler.resume(state["epoch"], state["done"], state["skipped"], state["place"])
        self._resuming = True

    def order(self) -> dict[str, int | float | str]:
        """The settings that determine the order of rows and batches."""
        return {"corpus": self._fingerprint, **self.sampler.settings()}


class OneBatchLoader:
    """One evaluation set as the only batch, on every process: Lightning's own sampler would repeat rows."""

    def __init__(self, pairs: ScoredPairs) -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[ScoredPairs]:
        yield self.pairs


class SentenceLoader:
    """Batches of sentences in the order of the text, blank rows included so that outputs line up with the rows.

    Args:
        text: where the sentences (its first column) come from.
        batch_size: sentences in a batch.
        rank: this process; of W processes it takes the batches rank, rank + W, ...
        world_size: W.
    """

    def __init__(self, text: IterableDataset, batch_size: int, *, rank: int = 0, world_size: int = 1) -> None:
        self._text = text
        self._batch_size = batch_size
        self._rank, self._world_size = rank, world_size

    def __iter__(self) -> Iterator[list[str]]:
        batches = chunks_of((sentences_of(row)[0] for row in self._text), self._batch_size)
        return islice(batches, self._rank, None, self._world_size)
