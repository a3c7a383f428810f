"""Decoders that reconstruct a sentence's tokens from its vector."""

from sentrep.decoders.transformer import DenoisingDecoder
from sentrep.encoder.compute.layout import RealTokens

__all__ = ["DenoisingDecoder", "RealTokens"]
