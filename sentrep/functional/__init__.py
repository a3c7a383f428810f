"""Pure functions of embeddings: no state, no modules, float32 inside whatever the autocast type."""

from sentrep.functional.correlation import spearman
from sentrep.functional.deviation import deviation
from sentrep.functional.geometry import alignment, effective_rank, uniformity
from sentrep.functional.listwise import jensen_shannon, list_mle, list_net
from sentrep.functional.noise import refine_noise
from sentrep.functional.similarity import cosine_similarity_matrix, info_nce
from sentrep.functional.sum_in_chunks import chunked_cross_entropy

__all__ = [
    "alignment",
    "chunked_cross_entropy",
    "cosine_similarity_matrix",
    "deviation",
    "effective_rank",
    "info_nce",
    "jensen_shannon",
    "list_mle",
    "list_net",
    "refine_noise",
    "spearman",
    "uniformity",
]
