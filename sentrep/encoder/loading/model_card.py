"""The README.md of a model folder: a model card of the hub."""

from __future__ import annotations

from huggingface_hub import EvalResult, ModelCardData

from sentrep.encoder.loading.settings import Settings
from sentrep.encoder.loading.trained import Trained
from sentrep.reports.text import markdown_text, printable
from sentrep.version import __version__

CARD = "README.md"
PLACE = "path/to/this/folder"
"""What the snippets load, until the model has a name."""

_CARD = """\
# Sentence encoder

Trained without labels by sentrep {version}{base}. Pooling: {pooling}. Vectors have {width} dimensions.

```python
from sentrep import SentenceEncoder
vectors = SentenceEncoder.from_pretrained("{place}").encode(["A sentence."])
```

{elsewhere}
{trained}"""

_SAME = """\
sentence-transformers gives the same vectors:

```python
from sentence_transformers import SentenceTransformer
vectors = SentenceTransformer("{place}").encode(["A sentence."])
```
"""

_OWN_MODULE = """\
sentence-transformers has no module for {missing}. It gives the same vectors through the module of sentrep, which has to
be installed and allowed, and otherwise refuses the folder:

```python
from sentence_transformers import SentenceTransformer
vectors = SentenceTransformer("{place}", trust_remote_code=True).encode(["A sentence."])
```

transformers loads the transformer and its tokenizer alone, without {missing}.
"""


def model_card(settings: Settings, embedding_dim: int, trained: Trained, missing: str | None) -> str:
    """What the model is, how it was trained and how to load it. The licence is left to whoever publishes it.

    Args:
        settings: of the model.
        embedding_dim: D.
        trained: how it came about.
        missing: what of it sentence-transformers cannot express by itself; None for nothing.
    """
    pooling = settings.pooling if settings.prompt is None else f"{settings.pooling}, prompt: {settings.prompt}"
    data = ModelCardData(
        library_name="sentence-transformers" if missing is None else "sentrep",
        base_model=trained.base,
        pipeline_tag="sentence-similarity",
        tags=["sentence-similarity", "sentrep"],
        eval_results=[_score(name, value) for name, value in trained.scores.items()] or None,
        model_name="sentence encoder" if trained.scores else None,  # the hub wants one beside scores
    )
    text = _CARD.format(
        version=__version__,
        base=f" from {markdown_text(trained.base)}" if trained.base else "",
        pooling=markdown_text(pooling),
        width=embedding_dim,
        place=PLACE,
        elsewhere=(_SAME if missing is None else _OWN_MODULE).format(missing=missing, place=PLACE),
        trained=_training(trained),
    )
    return f"---\n{data.to_yaml()}\n---\n{text}"


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


def _training(trained: Trained) -> str:
    lines = []
    if trained.objectives:
        named = ", ".join(f"{name} ({kind})" for name, kind in trained.objectives.items())
        lines.append(f"Objectives: {markdown_text(named)}.")
    if trained.step is not None:
        lines.append(f"Optimiser steps: {trained.step:,}.")
    if trained.data:
        lines.append(f"Fingerprint of the training text: {markdown_text(trained.data)}.")
    if trained.scores:
        found = ", ".join(f"{name} {value:.2f}" for name, value in trained.scores.items())
        lines.append(f"Development sets, Spearman × 100 of the cosine: {markdown_text(found)}.")
    return "\n## Training\n\n" + "\n".join(f"- {line}" for line in lines) + "\n" if lines else ""
