"""Save the lower layers of a transformer and its tokenizer as a folder of their own."""

from __future__ import annotations

import argparse
from pathlib import Path

from transformers import AutoModel, AutoTokenizer


def cut(source: str, layers: int, folder: Path) -> None:
    """Keep the first ``layers`` layers of a BERT-like model.

    Args:
        source: folder or Hub name, of a model with ``encoder.layer``.
        layers: from 1.
        folder: to write.

    Raises:
        SystemExit: the model has fewer layers.
    """
    model = AutoModel.from_pretrained(source)
    stack = model.encoder.layer
    if not 1 <= layers <= len(stack):
        raise SystemExit(f"{source} has {len(stack)} layers; expected 1 to {len(stack)}, got {layers}")
    model.encoder.layer = stack[:layers]
    model.config.num_hidden_layers = layers
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("layers", type=int)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    cut(arguments.source, arguments.layers, arguments.folder)


if __name__ == "__main__":
    main()
