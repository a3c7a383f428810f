from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch import LightningModule, seed_everything
from lightning.pytorch.utilities.seed import isolate_rng
from words import WordTokenize

from sentrep.data import PairsFile, Reading, SentRepDataModule
from sentrep.errors import InputError
from support import quiet_trainer, shared_path


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    (tmp_path / "corpus.txt").write_text("\n".join(["", *(f"sentence {number}" for number in range(21))]))
    return str(tmp_path / "corpus.txt")


def connected(corpus: str, **options: Any) -> SentRepDataModule:
    data = SentRepDataModule(corpus, batch_size=4, **options)
    data.connect(WordTokenize(), 8)
    return data


def test_without_a_trainer(corpus: str) -> None:
    data = connected(corpus, val=["toy-dev"], reading=Reading(fraction=0.5))
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
            "sentences cut in reading": 0,
            "used": 10,
            "left out of each epoch": 2,
        },
        "val": {"toy-dev": {"pairs": len(data.val_sets[0]), "protocol": data.val_sets[0].protocol}},
    }


def test_not_connected(corpus: str) -> None:
    with pytest.raises(RuntimeError, match="call connect"):
        SentRepDataModule(corpus).prepare_data()
    with pytest.raises(RuntimeError, match="setup"):
        connected(corpus).train_dataloader()


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


def test_real_triplets() -> None:
    data = connected(str(shared_path("data/pairs/nli_triplets.csv")))
    data.setup("fit")
    batch = next(iter(data.train_dataloader()))
    assert batch.positive is not None
    assert batch.negative is not None
    assert data.report()["train"]["kept"] == 5_706
