"""What an earlier version has written: a checkpoint of ``sentrep fit`` and an exported folder, of one tiny model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from sentrep import SentenceEncoder, SentRepModule
from sentrep.checkpoint.older import translate
from sentrep.cli import main
from sentrep.encoder import Compute

LANDED = Path(__file__).resolve().parents[1] / "landed"


@pytest.mark.parametrize("name", ["checkpoint.ckpt", "model"])
def test_it_gives_the_vectors_of_then(name: str) -> None:
    then = json.loads((LANDED / "vectors.json").read_text(encoding="utf-8"))
    now = SentenceEncoder.from_pretrained(LANDED / name).encode(then["sentences"])
    assert np.abs(now - np.array(then["vectors"])).max() < 2e-6


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ([], 0, ""),
        (["--data.reading.fraction", "0.5"], 2, "settings differ from the checkpoint's: data.reading.fraction"),
    ],
)
def test_its_run_goes_on(
    changes: list[str],
    status: int,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Settings have other places now; they are compared with those of then all the same."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(LANDED / "checkpoint.ckpt", "then.ckpt")
    words = ["fit", "--ckpt_path", "then.ckpt", "--data.batch_size", "32", "--data.val", "[toy-dev]"]
    words += ["--trainer.max_steps", "8", "--trainer.val_check_interval", "4", "--trainer.accelerator", "cpu"]
    assert main([*words, *changes]) == status
    assert says in capfd.readouterr().err
    if status == 0:
        (last,) = Path("runs").rglob("last.ckpt")
        loop = torch.load(last, weights_only=True)["loops"]["fit_loop"]["state_dict"]["combined_loader"]
        assert [place["done"] for place in loop] == [8]


def test_its_module_is_built_with_what_its_settings_are_called_now() -> None:
    """GradCache and groups of like length were said by ``grad_cache_chunk: 16`` and ``chunks: 4`` then."""
    module = SentRepModule.load_from_checkpoint(LANDED / "checkpoint.ckpt")
    assert module.encoder.compute == Compute(rows_at_once=16)
    assert set(module.objectives.terms) == {"simcse", "mlm"}


def test_all_that_has_moved_is_translated() -> None:
    then = {"fast_dropout": False, "pooled_token_only": False, "packed": True, "chunks": None, "revision": None}
    then |= {"subtract_template": True, "prompt": "[X] is [MASK]", "trust_remote_code": True}
    views = {"class_path": "sentrep.views.EncodedViews", "init_args": {"on": "both"}}
    found = translate({"encoder": {"init_args": then}, "compile": False, "views": views}, "SentRepModule")
    assert found == {
        "encoder": {
            "init_args": {
                "prompt": {"template": "[X] is [MASK]", "subtract": True},
                "compute": {
                    "layout": "packed",
                    "cheap_dropout": False,
                    "short_last_layer": False,
                    "compile": False,
                    "products": "auto",
                },
            }
        },
        "views": {"class_path": "sentrep.views.EncodedViews", "init_args": {"perturbs": "both"}},
    }
