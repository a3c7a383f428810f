"""Which checkpoint is kept where scores are equal, and what one is called that has no score yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentrep.cli import main

INTERRUPT = """
from lightning.pytorch import Callback


class Interrupt(Callback):
    def on_train_batch_end(self, *_):
        raise RuntimeError("pulled the plug")
"""


def names(workplace: Path) -> set[str]:
    return {path.name.split("-")[0] for path in (workplace / "runs/run/version_0/checkpoints").iterdir()}


def test_of_equal_scores_the_last_is_kept(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "-c", "run.yaml", "--model.optimizer.lr=0.0", "--model.optimizer.weight_decay=0.0"]) == 0
    assert names(workplace) == {"last.ckpt", "step=4"}
    assert "Step 4 was chosen by its val/sts" in capsys.readouterr().out


@pytest.mark.parametrize("flags", [[], ["--data.val=[]", "--data.held_out=4"]], ids=["labels", "none"])
def test_no_score_is_made_up_for_a_run_that_is_interrupted_before_its_first(flags: list[str], workplace: Path) -> None:
    (workplace / "plug.py").write_text(INTERRUPT)
    with pytest.raises(RuntimeError, match="pulled the plug"):
        main(["fit", "-c", "run.yaml", *flags, "--trainer.callbacks+=plug.Interrupt"])
    assert names(workplace) == {"last.ckpt", "step=1.ckpt"}
