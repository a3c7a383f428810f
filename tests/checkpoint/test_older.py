"""Checkpoints that record an argument under its former name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning
import pytest
import torch

from sentrep import SentRepDataModule, SentRepModule
from sentrep.checkpoint import older
from sentrep.data import Reading
from sentrep.objectives import Contrastive
from sentrep.views import EncodedViews
from support import tiny_encoder, toy_sentences


def node(kind: str, **arguments: Any) -> dict[str, Any]:
    return {"class_path": f"package.{kind}", "init_args": arguments}


def test_names_change_at_any_depth_and_the_record_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    renamed = {"Kind": {"old": "new"}, "SentenceEncoder": lambda settings: {"all": list(settings)}}
    monkeypatch.setattr(older, "OLDER", renamed)
    recorded = {"x": [{"y": node("Kind", old=node("Kind", old=1), other=2)}], "old": 3, "encoder": {"a": 1, "b": 2}}
    found = older.translate(recorded)
    assert found["x"] == [{"y": node("Kind", new=node("Kind", new=1), other=2)}]
    assert found["old"] == 3
    assert found["encoder"] == {"all": ["a", "b"]}
    assert older.translate({"encoder": node("SentenceEncoder", a=1)}) == {"encoder": node("SentenceEncoder", all=["a"])}
    assert recorded["encoder"] == {"a": 1, "b": 2}


@pytest.mark.parametrize("damaged", [None, 5, [], {"class_path": 5, "init_args": 5}, {"class_path": None}])
def test_what_is_no_record_stays_as_it_is(damaged: Any) -> None:
    assert older.translate(damaged) == damaged


def test_an_older_checkpoint_is_built_again(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("\n".join(toy_sentences(4)))
    trainer = lightning.Trainer(max_steps=1, accelerator="cpu", logger=False, default_root_dir=tmp_path)
    data = SentRepDataModule(str(tmp_path / "corpus.txt"), batch_size=4, reading=Reading(cache_dir=str(tmp_path)))
    trainer.fit(SentRepModule(tiny_encoder(), [Contrastive()], views=EncodedViews(perturbs="both")), data)
    trainer.save_checkpoint(tmp_path / "x.ckpt")
    saved = torch.load(tmp_path / "x.ckpt", weights_only=True)
    settings = saved["hyper_parameters"]["views"]["init_args"]
    settings["on"] = settings.pop("perturbs")
    torch.save(saved, tmp_path / "x.ckpt")
    rebuilt = SentRepModule.load_from_checkpoint(tmp_path / "x.ckpt")
    assert isinstance(rebuilt.views, EncodedViews)
    assert rebuilt.views.perturbs == "both"
