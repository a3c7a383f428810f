from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lightning.pytorch import LightningModule, seed_everything
from lightning.pytorch.utilities.seed import isolate_rng
from words import Words, WordTokenize

from sentrep.data import PairsFile, SentRepDataModule
from sentrep.errors import InputError
from sentrep.types import TextBatch, Tokenize
from support import quiet_trainer


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    (tmp_path / "corpus.txt").write_text("\n".join(["", *(f"sentence {number}" for number in range(21))]))
    return str(tmp_path / "corpus.txt")


def connected(corpus: str, **options: Any) -> SentRepDataModule:
    data = SentRepDataModule(corpus, batch_size=4, **options)
    data.connect(Words())
    return data


def test_without_a_trainer(corpus: str) -> None:
    data = connected(corpus, val=["toy-dev"], fraction=0.5)
    data.prepare_data()
    data.setup("fit")
    batches = list(data.train_dataloader())
    assert [len(batch) for batch in batches] == [4, 4]
    assert [pairs.name for loader in data.val_dataloader() for pairs in loader] == ["toy-dev"]
    assert data.fingerprint
    assert data.report() == {
        "train": {
            "source": corpus,
            "fingerprint": data.fingerprint,
            "rows": 22,
            "blank": 1,
            "kept": 21,
            "sentences cut": 0,
            "used": 10,
            "left out of each epoch": 2,
        },
        "val": {"toy-dev": {"pairs": len(data.val_sets[0]), "protocol": data.val_sets[0].protocol}},
    }


def test_seed_of_the_run(corpus: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)

    def order(seed: int | None) -> list[list[int]]:
        data = connected(corpus, seed=seed)
        data.setup("fit")
        return [batch.rows.tolist() for batch in data.train_dataloader()]

    assert order(None) == order(0) != order(5)
    with isolate_rng():
        seed_everything(5, verbose=False)
    assert order(None) == order(5)


def test_sets_need_distinct_names(corpus: str, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("sentence1,sentence2,score\na,b,1\nc,d,2\n")
    path = str(tmp_path / "p.csv")
    data = connected(corpus, test=[path, PairsFile(path, name="other")])
    data.setup("test")
    assert [pairs.name for pairs in data.test_sets] == ["p", "other"]
    with pytest.raises(InputError, match="evaluation sets p are listed twice"):
        connected(corpus, test=[path, path]).setup("test")


def lengths(data: SentRepDataModule) -> tuple[int, int, list[int]]:
    """Batches of the text, their width, and pairs of the validation sets, for the next training."""
    data.prepare_data()
    data.setup("fit")
    batches = list(data.train_dataloader())
    return len(batches), batches[0].anchor.input_ids.shape[1], list(map(len, data.val_sets))


def test_what_is_set_or_edited_after_a_training_is_followed_in_the_next(corpus: str, tmp_path: Path) -> None:
    pairs = tmp_path / "p.csv"
    pairs.write_text("sentence1,sentence2,score\na,b,1\nc,d,2\n")
    data = connected(corpus, val=[str(pairs)])
    assert lengths(data) == (5, 4, [2])
    before = data.fingerprint
    Path(corpus).write_text("\n".join(f"sentence {number}" for number in range(8)))
    assert lengths(data)[0] == 2
    pairs.write_text("sentence1,sentence2,score\na,b,1\nc,d,2\ne,f,3\n")
    assert lengths(data)[2] == [3]
    data.train, data.val = ["one longer sentence of seven words here", "another"] * 6, []
    assert lengths(data) == (3, 8, [])
    assert len({before, data.fingerprint}) == 2
    data.train, data.streaming = corpus, True
    data.setup("fit")
    assert data.report()["train"]["streaming"]


class Collect(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.tested: list[str] = []

    def test_step(self, pairs: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.tested.append(pairs.name)

    def predict_step(self, batch: list[str]) -> list[str]:
        return batch


def test_test_and_predict_do_not_read_the_training_text(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("one\n\nthree\n")
    data = SentRepDataModule(
        "no_such_corpus.txt", test=["toy-test", "toy-dev"], predict=str(tmp_path / "lines.txt"), batch_size=2
    )
    trainer = quiet_trainer()
    module = Collect()
    trainer.test(module, data, verbose=False)
    assert module.tested == ["toy-test", "toy-dev"]
    assert trainer.predict(module, data) == [["one", ""], ["three"]]
    with pytest.raises(InputError, match="nothing to predict"):
        trainer.predict(module, SentRepDataModule("no_such_corpus.txt"))


class OtherWords(WordTokenize):
    def __call__(self, sentences: Sequence[str], max_length: int | None) -> tuple[list[list[int]], int]:
        ids, cut = super().__call__(sentences, max_length)
        return [[number + 1000 for number in sentence] for sentence in ids], cut


class Reader(LightningModule):
    """Keeps the length of the longest sentence that it is trained on, and the smallest id."""

    def __init__(self, tokenize: Tokenize, max_length: int) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.encoder = SimpleNamespace(tokenize=tokenize, max_length=max_length)
        self.read = (0, 0)

    def training_step(self, batch: TextBatch) -> None:
        ids, mask = batch.anchor.input_ids, batch.anchor.attention_mask.bool()
        self.read = int(mask.sum(1).max()), int(ids[mask].min())

    def configure_optimizers(self) -> None:
        return None


@pytest.mark.parametrize("streaming", [False, True])
def test_every_module_reads_the_ids_of_its_own_tokenizer(tmp_path: Path, streaming: bool) -> None:
    (tmp_path / "corpus.txt").write_text("\n".join(f"{number} sheep" for number in range(21)))
    data = SentRepDataModule(str(tmp_path / "corpus.txt"), batch_size=4, streaming=streaming)

    def read(tokenize: Tokenize, max_length: int) -> tuple[int, int]:
        module = Reader(tokenize, max_length)
        quiet_trainer(max_steps=9, max_epochs=1).fit(module, data)
        return module.read

    data.connect(
        SimpleNamespace(tokenize=OtherWords("other"), max_length=3)
    )  # for a look at the data; a module with one encoder says it anew
    assert read(WordTokenize(), 8) == (4, 1)
    assert read(WordTokenize(), 3) == (3, 1)
    assert read(OtherWords("other"), 8) == (4, 1001)
    data.connect(Words(3))
    data.setup("fit")
    assert next(iter(data.train_dataloader())).anchor.input_ids.shape == (4, 3)
