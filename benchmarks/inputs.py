"""What the benchmarks run on where nothing else is given: encoders with random weights, and made-up sentences.

Speed does not depend on the weights. Sentences are random words of the toy tokenizer, one token each; their number is
drawn from a log-normal distribution like that of Wikipedia's sentences in WordPiece tokens (mean 29, and about 20 %
padding in a batch that is cut to 32 tokens).
"""

from __future__ import annotations

import contextlib
import lzma
import sys
from pathlib import Path
from typing import Any

import numpy as np

_BERT = {"model_type": "bert", "vocab_size": 30522, "pad_token_id": 0}
SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {
        **_BERT, "vocab_size": 2200, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 64,
    },
    "bert-mini": {
        **_BERT, "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024,
    },
    "6x384": {
        **_BERT, "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536,
    },
    "bert-base": {
        **_BERT, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
    },
}  # fmt: skip
"""Configurations by name; ``tiny`` is for trying a benchmark out."""


def model_folder(shape: str, folder: Path) -> str:
    """Write a masked-LM model of a shape with random weights, and the toy tokenizer, as a transformers folder."""
    import torch
    from transformers import AutoConfig, AutoModelForMaskedLM
    from transformers.utils import logging

    from sentrep.data import toy

    path = folder / shape
    if not path.exists():
        logging.disable_progress_bar()
        torch.manual_seed(0)
        AutoModelForMaskedLM.from_config(AutoConfig.for_model(**SHAPES[shape])).save_pretrained(path)
        tokenizer = toy.tokenizer()
        tokenizer.model_max_length = 512  # BERT's, as every variant reads it from somewhere else
        tokenizer.save_pretrained(path)
    return str(path)


def write_sentences(corpus: str | None, count: int, target: Path, length: int | None = None) -> str:
    """Write ``count`` sentences, one a line, and return the file's path.

    They are the first ones of a corpus, made-up ones, or made-up ones of ``length`` tokens each.
    """
    if length is not None:
        words = " ".join(made_up_sentences(count * length // 10 + 50)).split()
        sentences = [" ".join(words[row * length :][:length]) for row in range(count)]
    else:
        sentences = made_up_sentences(count) if corpus is None else _first_sentences(corpus, count)
    target.write_text("\n".join(sentences) + "\n", encoding="utf-8")
    return str(target)


def made_up_sentences(count: int, seed: int = 0) -> list[str]:
    """Sentences of random words, see above."""
    from sentrep.data import toy

    words = sorted(word for word in toy.tokenizer().get_vocab() if word.isalpha() and len(word) > 2)
    draws = np.random.default_rng(seed)
    lengths = draws.lognormal(3.17, 0.5, count).clip(3, 120).astype(int)
    picked = [words[number] for number in draws.integers(len(words), size=lengths.sum())]
    ends = lengths.cumsum()
    return [" ".join(picked[end - length : end]) for end, length in zip(ends, lengths, strict=True)]


def _first_sentences(corpus: str, count: int) -> list[str]:
    opener = lzma.open if corpus.endswith(".xz") else open
    with opener(corpus, "rt", encoding="utf-8") as lines:  # type: ignore[operator]
        sentences = [line.strip() for _, line in zip(range(count), lines, strict=False)]
    if len(sentences) < count:
        sys.exit(f"{corpus}: {len(sentences)} sentences where {count} are needed; lower the sizes or give more text")
    return sentences


def token_lengths(folder: str, corpus: str, max_length: int | None) -> list[int]:
    """Tokens of every sentence of a file for a model, special ones included, cut like the benchmark cuts them."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    limit = max_length or tokenizer.model_max_length
    sentences = Path(corpus).read_text(encoding="utf-8").splitlines()
    return [min(len(ids), limit) for ids in tokenizer(sentences, verbose=False)["input_ids"]]


def load_peer(folder: str, pooling: str, max_length: int | None = None, device: str = "cpu") -> Any:
    """A transformers folder as a model of sentence-transformers, in float32.

    It would take the precision of the file otherwise: float16 for some folders, which a CPU computes ten times slower.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    transformer = Transformer(folder, model_kwargs={"dtype": torch.float32}, max_seq_length=max_length)
    return SentenceTransformer(
        modules=[transformer, Pooling(transformer.get_embedding_dimension(), pooling)], device=device
    )


def load_plain(folder: str, device: str) -> tuple[Any, Any]:
    """A folder's transformers model in float32, and its tokenizer."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder, dtype=torch.float32)
    return model.to(device), AutoTokenizer.from_pretrained(folder)


def check_weights(model: Any) -> None:
    """Refuse weights of several types, or of another than float32: precisions would not be equal.

    Raises:
        RuntimeError: says which types there are.
    """
    types = {str(weights.dtype) for weights in model.parameters()}
    if types != {"torch.float32"}:
        raise RuntimeError(f"weights are {sorted(types)}, not float32: the comparison would not be fair")


@contextlib.contextmanager
def quiet() -> Any:
    """Without progress bars and chatter of the libraries that are compared."""
    import logging
    import warnings

    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
