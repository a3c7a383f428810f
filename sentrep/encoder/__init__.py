"""Sentence encoders: where they come from (`loading`), text to token ids (`text`), ids to vectors (`compute`)."""

from sentrep.encoder.adapters import Lora
from sentrep.encoder.compute.plan import Compute
from sentrep.encoder.compute.pooling import POOLINGS
from sentrep.encoder.convolution import ConvolutionalPooling
from sentrep.encoder.copies import EncoderCopy, frozen
from sentrep.encoder.encoder import SentenceEncoder
from sentrep.encoder.flow import Flow
from sentrep.encoder.frozen_encoder import FrozenEncoder
from sentrep.encoder.graph import GraphEncoder, write_graph
from sentrep.encoder.heads import ProjectionHead
from sentrep.encoder.modules import Dense, Normalize, SentenceModule
from sentrep.encoder.services import EncoderServices
from sentrep.encoder.text.tokenizer import Prompt
from sentrep.encoder.whitening import fit_whitening

__all__ = [
    "POOLINGS",
    "Compute",
    "ConvolutionalPooling",
    "Dense",
    "EncoderCopy",
    "EncoderServices",
    "Flow",
    "FrozenEncoder",
    "GraphEncoder",
    "Lora",
    "Normalize",
    "ProjectionHead",
    "Prompt",
    "SentenceEncoder",
    "SentenceModule",
    "fit_whitening",
    "frozen",
    "write_graph",
]
