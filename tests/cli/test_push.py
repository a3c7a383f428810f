"""``sentrep push`` and the model card, with a hub that is none."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard
from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

from sentrep.cli import main
from sentrep.encoder.loading import folders
from sentrep.encoder.loading.trained import Trained, hub_name
from support import tiny_encoder

REPORT = {
    "results": [
        {
            "name": "stsb",
            "pairs": 3,
            "protocol": "all",
            "split": "test",
            "dataset": "x",
            "spearman": 81.5,
            "pearson": 1,
        },
        {"name": "mr", "train": 2, "protocol": "p", "split": "test", "dataset": "y", "accuracy": 70.0},
    ]
}


class Hub:
    """What is asked of `HfApi`."""

    error: Exception | None = None
    calls: dict[str, Any]

    def __init__(self, token: str | None = None) -> None:
        self.calls["token"] = token

    def create_repo(self, repo_id: str, private: bool, exist_ok: bool) -> str:
        if self.error is not None:
            raise self.error
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


def model(**facts: Any) -> None:
    encoder = tiny_encoder(pooling="mean")
    encoder.trained = Trained(**facts)
    encoder.save_pretrained("model")


def test_a_folder_is_pushed_with_licence_scores_and_its_name(
    hub: type[Hub], capsys: pytest.CaptureFixture[str]
) -> None:
    model(base="owner/bert", objectives={"simcse": "Contrastive"}, data="ab12", step=1200, scores={"stsb-dev": 83.2})
    Path("eval.json").write_text(json.dumps(REPORT))
    assert main(["push", "model", "me/nice", "--license", "apache-2.0", "--scores", "[eval.json]"]) == 0
    assert "https://hub/me/nice (private" in capsys.readouterr().out
    assert hub.calls["private"] is True
    assert {"README.md", "model.safetensors", "sentrep.json"} <= set(hub.calls["files"])
    card = ModelCard.load("model/README.md")
    assert (card.data.license, card.data.base_model, card.data.model_name) == (
        "apache-2.0",
        "owner/bert",
        "sentence encoder",
    )
    found = {(one.dataset_name, one.dataset_split, one.metric_type): one.metric_value for one in card.data.eval_results}
    assert found == {
        ("stsb-dev", "dev", "spearman_cosine"): 0.832,
        ("stsb", "test", "spearman_cosine"): 0.815,
        ("mr", "test", "accuracy"): 0.7,
    }
    for said in ("from owner/bert", "simcse (Contrastive)", "1,200", "ab12", "stsb-dev 83.20"):
        assert said in card.text
    assert card.text.count('"me/nice"') == 2
    assert main(["push", "model", "me/nice", "--private", "false"]) == 0  # the card has a licence now
    assert hub.calls["private"] is False


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["model", "me/nice"], "under which licence? Name it (--license apache-2.0"),
        (["model", "nice"], "nice: no name of a repository; expected OWNER/NAME"),
        (["model", "me/nice", "--license", "My Own"], "--license My Own: expected a name"),
        (["nowhere", "me/nice"], "nowhere: no model folder of sentrep; sentrep export CHECKPOINT FOLDER writes one"),
        ([".", "me/nice"], ".: no model folder of sentrep; model is one"),
        (
            ["model", "me/nice", "--license", "mit", "--scores", "[model/sentrep.json]"],
            "no report of `sentrep evaluate",
        ),
    ],
)
def test_what_cannot_be_pushed_is_one_sentence(
    words: list[str], said: str, hub: type[Hub], capsys: pytest.CaptureFixture[str]
) -> None:
    model()
    before = Path("model/README.md").read_text()
    assert main(["push", *words]) == 1
    assert said in capsys.readouterr().err
    assert not hub.calls
    assert Path("model/README.md").read_text() == before


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LocalTokenNotFoundError("x"), "you are not logged in; run `hf auth login`"),
        (
            HfHubHTTPError("403 Forbidden\nmore", response=SimpleNamespace(headers={}, request=None)),
            "not uploaded (403",
        ),  # type: ignore[arg-type]
        (ConnectionError("no route"), "me/nice: not uploaded (no route)"),
    ],
)
def test_a_refusal_of_the_hub_is_one_sentence(
    error: Exception, said: str, hub: type[Hub], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model()
    monkeypatch.setattr(hub, "error", error)
    assert main(["push", "model", "me/nice", "--license", "mit"]) == 1
    assert said in capsys.readouterr().err


def test_a_checkpoint_says_how_it_was_trained(tmp_path: Path) -> None:
    history = {"val/stsb-dev": [[0, 70.0], [5, 80.0]], "val/stsb-dev/alignment": [[5, 0.2]], "val/sts": [[5, 80.0]]}
    content = {
        "sentrep": {"base": "owner/bert", "data": "ab"},
        "global_step": 5,
        "hyper_parameters": {"objectives": {"a": {"class_path": "x.y.Contrastive", "init_args": {}}, "b": None}},
        "callbacks": {"TrainingReport": {"history": history}, "other": {"history": 3}, "third": []},
    }
    assert Trained.of(content) == Trained("owner/bert", {"a": "Contrastive"}, "ab", 5, {"stsb-dev": 80.0})
    odd = {"sentrep": {"base": "../x y", "data": 3}, "global_step": "5", "hyper_parameters": [], "callbacks": None}
    assert Trained.of(odd) == Trained()
    assert (hub_name("owner/bert"), hub_name({"model_type": "bert"}), hub_name(str(tmp_path))) == (
        "owner/bert",
        None,
        None,
    )


def test_a_card_guesses_no_licence(hub: type[Hub]) -> None:
    model()
    front = yaml.safe_load(Path("model/README.md").read_text().split("---\n")[1])
    assert sorted(front) == ["library_name", "pipeline_tag", "tags"]
