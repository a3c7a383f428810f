"""The README.md of a model folder: a model card of the hub, written into the form of ``card.md``."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from sentrep.encoder.loading.settings import Settings
from sentrep.encoder.loading.trained import Trained
from sentrep.io.text import markdown_text, printable
from sentrep.version import __version__

CARD = "README.md"


def model_card(settings: Settings, embedding_dim: int, trained: Trained, missing: str | None) -> str:
    """The model card: the model, its training, and how to load it. The publisher chooses the licence.

    Args:
        settings: of the model.
        embedding_dim: D.
        trained: how it came about.
        missing: the part that sentence-transformers cannot express by itself, or None.
    """
    data = ModelCardData(
        library_name="sentence-transformers" if missing is None else "sentrep",
        base_model=trained.base,
        pipeline_tag="sentence-similarity",
        tags=["sentence-similarity", "sentrep"],
        eval_results=[_score(name, value) for name, value in trained.scores.items()] or None,
        model_name="sentence encoder" if trained.scores else None,  # the hub wants one beside scores
    )
    card = ModelCard.from_template(
        data,
        template_path=str(Path(__file__).with_name("card.md")),
        text=markdown_text,
        version=__version__,
        pooling=settings.pooling if settings.prompt is None else f"{settings.pooling}, prompt: {settings.prompt}",
        width=embedding_dim,
        trained=trained,
        missing=missing,
    )
    return f"{card}\n"


def _score(name: str, value: float) -> EvalResult:
    """Spearman's correlation × 100 of a development set as the hub has it: of the cosine, between 0 and 1."""
    return EvalResult(
        task_type="semantic-similarity",
        dataset_type=printable(name),
        dataset_name=printable(name),
        dataset_split="dev",
        metric_type="spearman_cosine",
        metric_value=round(value / 100, 6),
    )
