"""Sentence encoders: backbone, tokenisation, pooling, projection head."""

from sentrep.data.stored_embeddings import StoredEmbeddings
from sentrep.encoder.compute.pooling import POOLINGS
from sentrep.encoder.encoder import SentenceEncoder
from sentrep.encoder.heads import ProjectionHead
from sentrep.encoder.whitening import fit_whitening

__all__ = ["POOLINGS", "ProjectionHead", "SentenceEncoder", "StoredEmbeddings", "fit_whitening"]
