"""Sentence embeddings without labels: pluggable contrastive and generative objectives on one encoder pass."""

from sentrep.version import __version__

__all__ = ["__version__"]
