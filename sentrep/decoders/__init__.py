"""Decoders that reconstruct a sentence's tokens from its vector."""

from sentrep.functional.packing import RealTokens
from sentrep.decoders.transformer import DenoisingDecoder

__all__ = ["DenoisingDecoder", "RealTokens"]
