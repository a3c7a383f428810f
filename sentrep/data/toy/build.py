"""After a change of the lexicon or the grammar: ``python -m sentrep.data.toy.build`` writes the tokenizer again."""

from sentrep.data.toy.wordpiece import TOKENIZER_FILE, train


def main() -> None:
    """Train the tokenizer and write it to the package."""
    trained = train()
    trained.save(str(TOKENIZER_FILE), pretty=True)
    print(f"wrote {trained.get_vocab_size()} word pieces to {TOKENIZER_FILE}")


if __name__ == "__main__":
    main()
