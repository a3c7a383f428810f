"""DenoSent's recipes have the numbers of the paper and of its code, and cut the text as that code does."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentrep import SentenceEncoder, SentRepModule
from sentrep.cli import main
from sentrep.cli.config.configuration import read_config
from sentrep.cli.config.paper_tables import read_table
from support import toy_sentences

FOLDER = Path(__file__).resolve().parents[1] / "configs" / "denosent"
TEMPLATE = '"[X]" means [MASK].'
DECODER = {
    "layers": 16, "heads": 1, "feed_forward": 2048, "activation": "relu", "dropout": 0.1, "noise": 0.825,
    "target": "positive",
}  # fmt: skip
PAPER = {
    "model.objectives.contrastive.init_args.temperature": 0.03,
    "model.optimizer.init_args.lr": 5e-5,
    "model.scheduler": "linear",
    "model.warmup_steps": 0,
    "data.batch_size": 64,
    "data.val": ["stsb-dev"],
    "trainer.max_epochs": 1,
    "trainer.val_check_interval": 125,
}
REFERENCE = {
    "model.objectives.contrastive.init_args.temperature": 0.05,
    "model.weights": {"contrastive": 5.0, "denoising": 7.0},
    "model.optimizer.init_args.lr": 4e-5,
    "model.scheduler": "constant",
    "model.warmup_steps": 500,
    "data.train": "Singhoo/denosent_data",
    "data.columns": ["sent0", "sent1"],
    "data.batch_size": 64,
    "data.val": ["stsb-dev", "sickr-dev"],
    "trainer.max_steps": 5000,
    "trainer.val_check_interval": 50,
}
BOTH = {
    "model.encoder": {
        "backbone": "bert-base-uncased", "pooling": "mask", "prompt": TEMPLATE, "max_length": 30,
        "max_seq_length": 30,
    },
    "model.head": {"kind": "linear"},
    "model.objectives.denoising.init_args": DECODER,
    "model.optimizer.class_path": "torch.optim.AdamW",
    "model.optimizer.init_args.weight_decay": 0.0,
}  # fmt: skip


def at(tree: Any, key: str) -> Any:
    for name in key.split("."):
        tree = tree[name]
    return tree


@pytest.mark.parametrize(
    ("name", "numbers"), [("paper", PAPER), ("llm", PAPER), ("reference", REFERENCE)], ids=["paper", "llm", "reference"]
)
def test_the_numbers_of_the_paper_and_of_the_code(name: str, numbers: dict[str, Any]) -> None:
    tree = read_config(str(FOLDER / f"bert-base-{name}.yaml"))[1]
    assert {key: at(tree, key) for key in (numbers | BOTH)} == numbers | BOTH
    assert ("weights" in tree["model"]) == (name == "reference"), "the paper's loss is the plain sum"


def test_thirty_pieces_of_text_in_a_template_and_thirty_two_tokens_without_one() -> None:
    trees = {path.name: read_config(str(path))[1] for path in FOLDER.glob("*.yaml")}
    for table in ("ablation", "heads", "layers", "noise", "minilm-cls"):
        rows = read_table(str(FOLDER / "tables" / f"{table}.yaml")).rows.items()
        trees |= {name: row.tree for name, row in rows if row.tree["model"]["encoder"].get("prompt") == TEMPLATE}
        trees |= {name: row.tree for name, row in rows if "cls" in name}
    assert {"cls-pooling", "minilm-cls", "no-discrete-noise", "heads-16"} < set(trees)
    for name, tree in trees.items():
        encoder = tree["model"]["encoder"]
        length = 32 if "cls" in name else 30
        assert (encoder["max_length"], encoder["max_seq_length"]) == (length, length), name


def test_text_is_cut_in_training_and_in_evaluation_and_the_template_never(
    tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = [" ".join(toy_sentences(60)[start : start + 8]).replace(",", "") for start in range(0, 60, 5)]
    rows = [f"{a},{b}" for a, b in pairwise(long)]
    (tmp_path / "long.csv").write_text("\n".join(["sent0,sent1", *rows]) + "\n")
    seen: list[Any] = []
    step = SentRepModule.training_step
    monkeypatch.setattr(
        SentRepModule, "training_step", lambda self, batch, *a: seen.append(batch) or step(self, batch, *a)
    )
    flags = ["--data.train", "long.csv", "--trainer.max_steps", "2"]
    assert main(["fit", "-c", str(FOLDER / "bert-mini.yaml"), *tiny, *flags]) == 0
    (checkpoint,) = tmp_path.rglob("last.ckpt")
    encoder = SentenceEncoder.from_pretrained(checkpoint)
    frame = len(encoder.tokenize.prefix) + len(encoder.tokenize.suffix)
    suffix = encoder.tokenize.suffix
    for batch in seen:
        for tokens in (batch.anchor, batch.positive):
            assert tokens.input_ids.shape[1] == 30 + frame
            assert tokens.input_ids[:, -len(suffix) :].tolist() == [suffix] * len(tokens)
    text = long[0]
    words = encoder.tokenize.tokenizer.tokenize(text)
    assert len(words) > 30
    cut = encoder.tokenize.tokenizer.convert_tokens_to_string(words[:30])
    assert encoder.tokenize.tokenizer.tokenize(cut) == words[:30]
    np.testing.assert_allclose(encoder.encode(text), encoder.encode(cut), atol=1e-6)
    encoder.max_seq_length = None
    assert np.abs(encoder.encode(text) - encoder.encode(cut)).max() > 1e-4
