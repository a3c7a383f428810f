"""Tasks of mteb over local data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def split(columns: Mapping[str, list[Any]]) -> Any:
    """The data of one split."""
    import datasets

    return datasets.Dataset.from_dict(dict(columns))


def local_task(kind: str, main: str, data: Any, name: str = "", **settings: Any) -> Any:
    """A task of this kind, such as ``STS``, with these splits; it loads nothing."""
    from mteb import abstasks
    from mteb.abstasks.task_metadata import TaskMetadata

    class LocalTask(getattr(abstasks, f"AbsTask{kind}")):  # type: ignore[misc]
        metadata = TaskMetadata(
            name=name or f"Local{kind}", type=kind, main_score=main, description="local",
            reference="https://example.org", dataset={"path": "local", "revision": "1"}, category="t2t",
            eval_splits=["test"], eval_langs=["eng-Latn"], date=("2024-01-01", "2024-01-01"), dialect=[], domains=[],
            task_subtypes=[], license="cc-by-4.0", annotations_creators="derived", modalities=["text"],
            sample_creation="found", bibtex_citation="",
        )  # fmt: skip

        def load_data(self, *_: Any, **__: Any) -> None:
            import datasets

            self.dataset, self.data_loaded = datasets.DatasetDict(data), True

    for key, value in settings.items():
        setattr(LocalTask, key, value)
    return LocalTask()
