"""The README.md of a model folder."""

from __future__ import annotations

from sentrep.encoder.protocol import Encoder
from sentrep.io.harmless import markdown_text
from sentrep.version import __version__

_CARD = """\
---
library_name: {library}
tags: [sentence-similarity, sentrep]
pipeline_tag: sentence-similarity
---
# Sentence encoder

Trained without labels by sentrep {version}. Pooling: {pooling}. Vectors have {width} dimensions.

```python
from sentrep import SentenceEncoder
vectors = SentenceEncoder.from_pretrained("path/to/this/folder").encode(["A sentence."])
```

{elsewhere}
"""

_SAME = """\
sentence-transformers gives the same vectors:

```python
from sentence_transformers import SentenceTransformer
vectors = SentenceTransformer("path/to/this/folder").encode(["A sentence."])
```"""

_OWN_MODULE = """\
sentence-transformers has no module for {missing}. It gives the same vectors through the module of sentrep, which has to
be installed and allowed, and otherwise refuses the folder:

```python
from sentence_transformers import SentenceTransformer
vectors = SentenceTransformer("path/to/this/folder", trust_remote_code=True).encode(["A sentence."])
```

transformers loads the transformer and its tokenizer alone, without {missing}."""


def model_card(encoder: Encoder, missing: str | None) -> str:
    """What the model is and how to load it.

    Args:
        encoder: what the folder holds.
        missing: what of it sentence-transformers cannot express by itself; None for nothing.
    """
    pooling = encoder.pooling if encoder.prompt is None else f"{encoder.pooling}, prompt: {encoder.prompt}"
    return _CARD.format(
        library="sentence-transformers" if missing is None else "sentrep",
        version=__version__,
        pooling=markdown_text(pooling),
        width=encoder.embedding_dim,
        elsewhere=_SAME if missing is None else _OWN_MODULE.format(missing=missing),
    )
