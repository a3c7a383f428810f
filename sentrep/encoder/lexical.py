"""Words beside meaning: a second part of the vector, whose cosine measures matching words in few dimensions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from sentrep import checks
from sentrep.encoder.encoder import SentenceEncoder
from sentrep.encoder.modules import Normalize, SentenceModule, chain
from sentrep.encoder.search import BLOCK
from sentrep.errors import InputError
from sentrep.functional.similarity import unit
from sentrep.io.chunks import chunks_of

_K1 = 1.2
"""How soon a token that comes again counts no more: BM25's usual k₁ (Robertson & Zaragoza 2009, section 3.4)."""


class LexicalFeatures(SentenceModule):
    """Appends a vector of the tokens with BM25 weights to the sentence's vector; needs `fit_lexical`.

        v = [√(1 − w) x/‖x‖, √w s/‖s‖],    s = Σ_t f_t (k₁ + 1) / (f_t + k₁) · idf_t u_t

    over the distinct tokens t of a text with their counts f_t: so cos(v, v') = (1 − w) cos(x, x') + w cos(s, s'), a
    mixture of both similarities that any vector index can search. u_t is a row of the factors of latent semantic
    analysis (Deerwester et al. 1990). Sums of a sparse and a dense score are the hybrids of Luan et al. 2021
    (Sparse, Dense, and Attentional Representations for Text Retrieval); here both are one vector.

    Args:
        vocabulary: V, tokens of the tokenizer.
        features: m, dimensions of s.
        weight: w in [0, 1).

    Raises:
        InputError: for values out of range.

    Examples:
        >>> import torch
        >>> from sentrep.encoder import LexicalFeatures
        >>> part = LexicalFeatures(vocabulary=10, features=2)
        >>> part.build(width=4, std=0.02)
        >>> part(torch.ones(1, 4), torch.ones(1, 3, 4), torch.ones(1, 3), torch.tensor([[1, 2, 3]])).shape
        torch.Size([1, 6])
    """

    reads_ids: ClassVar[bool] = True
    table: Tensor
    vocabulary: int

    def __init__(self, vocabulary: int, features: int = 384, weight: float = 0.2) -> None:
        super().__init__()
        checks.whole(self, 1, 10**7, vocabulary=vocabulary, features=features)
        checks.share(self, weight=weight)
        self.vocabulary, self.features, self.weight = vocabulary, features, weight

    def build(self, width: int, std: float) -> None:
        """See `SentenceModule.build`; a table of zeros, which add nothing."""
        self.register_buffer("table", torch.zeros(self.vocabulary, self.features))
        self.out_features = width + self.features

    def lexical(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(B, L) token ids and their mask → s/‖s‖ (B, m), float32; 0 for a text without a known token."""
        same = (ids[:, :, None] == ids[:, None, :]) & (mask[:, None, :] > 0)
        # each of f_t equal tokens adds its share of the token's weight
        share = (_K1 + 1) / (same.sum(2) + _K1) * mask
        with torch.autocast(ids.device.type, enabled=False):
            return unit(torch.einsum("bl,blm->bm", share.to(self.table.dtype), self.table[ids]))

    def forward(self, embedding: Tensor, token_states: Tensor, mask: Tensor, ids: Tensor) -> Tensor:  # type: ignore[override]
        """See `SentenceModule.forward`."""
        return mixture(embedding, self.lexical(ids, mask), self.weight)


def mixture(embedding: Tensor, words: Tensor, weight: float) -> Tensor:
    """[√(1 − w) x/‖x‖, √w s] (B, D + m), for x (B, D) and s (B, m) of length 1 or 0."""
    dense = (1 - weight) ** 0.5 * unit(embedding)
    return torch.cat([dense, weight**0.5 * words.to(dense.dtype)], dim=1)


def fit_lexical(encoder: SentenceEncoder, texts: Iterable[str], features: int = 384, seed: int = 0) -> LexicalFeatures:
    """Fit the module on these texts, without changing the encoder: see `with_lexical`.

        idf_t = ln(1 + (N − n_t + ½) / (n_t + ½)),  n_t of N texts have token t

    A token that occurs in no text has no direction and no effect.

    Args:
        encoder: its tokens are counted, prompts and special tokens included; tokens of every text have almost no
            effect.
        texts: any number, read once.
        features: m; fewer if the texts have fewer directions.
        seed: of the factorisation.

    Raises:
        InputError: too few texts or tokens to find a direction in.
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize
    from sklearn.utils.extmath import randomized_svd

    counter = CountVectorizer(analyzer=list, vocabulary=range(encoder.vocab_size), dtype=np.float64)
    ids = (row for block in chunks_of(texts, BLOCK) for row in encoder.tokenize(block, encoder.max_seq_length)[0])
    counts = counter.transform(ids)
    documents = counts.shape[0]
    found = counts.getnnz(axis=0)
    features = min(features, documents - 1, int((found > 0).sum()) - 1)
    if features < 1:
        raise InputError(f"lexical features: {documents} texts have too few tokens in common to find a direction in")
    idf = np.log1p((documents - found + 0.5) / (found + 0.5))
    counts.data *= (_K1 + 1) / (counts.data + _K1)
    weighted = normalize(counts.multiply(idf).tocsr())
    *_, directions = randomized_svd(weighted, features, random_state=seed)
    module = LexicalFeatures(counts.shape[1], features)
    module.build(encoder.embedding_dim, std=0.0)
    module.table.copy_(torch.from_numpy((directions * idf).T.astype(np.float32)))
    return module


def with_lexical(encoder: SentenceEncoder, module: LexicalFeatures, weight: float = 0.2) -> SentenceEncoder:
    """Add the module at the end of an encoder, with this weight; its vectors then have length 1.

    Args:
        encoder: changed in place; a final `Normalize` moves after the module.
        module: of `fit_lexical`, for an encoder with the same tokens.
        weight: w.

    Returns:
        ``encoder``.
    """
    former: list[Any] = [part for part in encoder.sentence_modules if not isinstance(part, LexicalFeatures)]
    kept = former[:-1] if encoder.normalizes else former
    width = kept[-1].out_features if kept else encoder.hidden_size
    ending = chain([LexicalFeatures(module.vocabulary, module.features, weight), Normalize()], width, std=0.0)
    ending[0].load_state_dict(module.state_dict())
    encoder.set_modules([*kept, *ending])
    return encoder
