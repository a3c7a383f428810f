"""The model card, and the upload to a hub that is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from sentrep.encoder.loading import folders
from sentrep.encoder.loading.trained import Trained, hub_name
from support import tiny_encoder


class Hub:
    """What is asked of `HfApi`."""

    calls: dict[str, Any]

    def __init__(self, token: str | None = None) -> None:
        self.calls["token"] = token

    def create_repo(self, repo_id: str, private: bool, exist_ok: bool) -> str:
        self.calls.update(repo=repo_id, private=private, exist_ok=exist_ok)
        return f"https://hub/{repo_id}"

    def upload_folder(self, repo_id: str, folder_path: str, commit_message: str) -> None:
        self.calls["files"] = sorted(path.name for path in Path(folder_path).iterdir())


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[Hub]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Hub, "calls", {}, raising=False)
    monkeypatch.setattr(folders, "HfApi", Hub)
    return Hub


def test_a_card_says_how_the_model_was_trained_and_guesses_no_licence(hub: type[Hub]) -> None:
    encoder = tiny_encoder(pooling="mean")
    encoder.trained = Trained("owner/bert", {"a": "Contrastive"}, "ab", 5, {"stsb-dev": 80.0})
    encoder.save_pretrained("model")
    card = ModelCard.load("model/README.md")
    assert (card.data.license, card.data.base_model, card.data.library_name) == (
        None,
        "owner/bert",
        "sentence-transformers",
    )
    (found,) = card.data.eval_results
    assert (found.dataset_name, found.dataset_split, found.metric_type, found.metric_value) == (
        "stsb-dev",
        "dev",
        "spearman_cosine",
        0.8,
    )
    for said in ("Objectives: a (Contrastive)", "Optimiser steps: 5", "ab", "from owner/bert"):
        assert said in card.text


def test_an_encoder_is_uploaded_with_its_card(hub: type[Hub]) -> None:
    assert tiny_encoder().push_to_hub("me/nice", private=True, token="secret") == "https://hub/me/nice"
    assert (hub.calls["private"], hub.calls["token"]) == (True, "secret")
    assert {"README.md", "model.safetensors", "sentrep.json"} <= set(hub.calls["files"])


def test_a_checkpoint_says_how_it_was_trained(tmp_path: Path) -> None:
    history = {"val/stsb-dev": [[0, 70.0], [5, 80.0]], "val/stsb-dev/alignment": [[5, 0.2]], "val/sts": [[5, 80.0]]}
    content = {
        "sentrep": {"base": "owner/bert", "data": "ab"},
        "global_step": 5,
        "hyper_parameters": {"objectives": {"a": {"class_path": "x.y.Contrastive", "init_args": {}}, "b": None}},
        "callbacks": {"RunReport": {"history": history}, "other": {"history": 3}, "third": []},
    }
    assert Trained.of(content) == Trained("owner/bert", {"a": "Contrastive"}, "ab", 5, {"stsb-dev": 80.0})
    odd = {"sentrep": {"base": "../x y", "data": 3}, "global_step": "5", "hyper_parameters": [], "callbacks": None}
    assert Trained.of(odd) == Trained()
    assert hub_name("owner/bert") == hub_name({"name": "owner/bert", "revision": "v1"}) == "owner/bert"
    assert hub_name({"model_type": "bert"}) is hub_name(str(tmp_path)) is None
