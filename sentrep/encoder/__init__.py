"""Sentence encoders: backbone, tokenisation, pooling, projection head."""

from sentrep.encoder.encoder import SentenceEncoder
from sentrep.encoder.heads import ProjectionHead
from sentrep.encoder.pooling import POOLINGS
from sentrep.encoder.stored import StoredEmbeddings
from sentrep.encoder.whitening import fit_whitening

__all__ = ["POOLINGS", "ProjectionHead", "SentenceEncoder", "StoredEmbeddings", "fit_whitening"]
