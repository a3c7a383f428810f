"""Decoders that reconstruct a sentence's tokens from its vector."""

from sentrep.decoders.transformer import DenoisingDecoder
from sentrep.functional.packing import RealTokens

__all__ = ["DenoisingDecoder", "RealTokens"]
