"""The tokenizer of the toy corpus, shipped as `tokenizer.json`."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from sentrep.data.toy.grammar import sentences

TOKENIZER_FILE = Path(__file__).with_name("tokenizer.json")
MODEL_MAX_LENGTH = 64
"""Longest sequence in tokens; the longest toy sentence has fewer than 40."""

_SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
_VOCABULARY = 2_500


def tokenizer() -> PreTrainedTokenizerFast:
    """The toy's lower-casing WordPiece tokenizer; it adds [CLS] and [SEP] as BERT's does.

    Examples:
        >>> tokenizer().tokenize("The chef baked bread.")
        ['the', 'chef', 'b', '##ak', '##ed', 'bread', '.']
    """
    return PreTrainedTokenizerFast(
        tokenizer_file=str(TOKENIZER_FILE),
        model_max_length=MODEL_MAX_LENGTH,
        **{f"{role}_token": token for role, token in _SPECIAL.items()},
    )


def train() -> Tokenizer:
    """Train the tokenizer afresh on `sentences()`, after a change of the lexicon or the grammar.

    ``train().save(str(TOKENIZER_FILE), pretty=True)`` writes it to the package.
    """
    corpus = sentences()
    trainee = _lower_casing(models.WordPiece(unk_token=_SPECIAL["unk"]))
    # The trainer breaks ties between merges by token id, and numbers continuing letters ("##e") in random order unless
    # they come first. Only its vocabulary is kept, so that they are no special tokens in the end.
    letters = [f"##{letter}" for letter in sorted(set("".join(corpus).lower())) if letter.isalpha()]
    trainer = trainers.WordPieceTrainer(
        vocab_size=_VOCABULARY, special_tokens=[*_SPECIAL.values(), *letters], show_progress=False
    )
    trainee.train_from_iterator(corpus, trainer)

    trained = _lower_casing(models.WordPiece(trainee.get_vocab(), unk_token=_SPECIAL["unk"]))
    trained.add_special_tokens(list(_SPECIAL.values()))
    cls, sep = _SPECIAL["cls"], _SPECIAL["sep"]
    trained.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(token, trained.token_to_id(token)) for token in (cls, sep)],
    )
    trained.decoder = decoders.WordPiece()
    return trained


def _lower_casing(model: models.WordPiece) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer
