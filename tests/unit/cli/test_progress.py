"""A log has a line for each validation, no carriage returns, and nothing of Lightning's that no user can mend."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from support import fit


@pytest.mark.parametrize(
    ("flags", "steps"),
    [([], [2, 4]), (["--data.val=[]", "--trainer.val_check_interval=null"], [1, 2, 3, 4])],
    ids=["validations", "none"],
)
def test_a_log_has_a_line_for_each_validation_or_ten_in_all(
    flags: list[str],
    steps: list[int],
    workplace: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO", logger="lightning.pytorch.utilities.rank_zero"):
        assert fit("--trainer.enable_progress_bar=true", *flags) == 0
    out, err = capsys.readouterr()
    lines = [line for line in out.splitlines() if line.startswith("step ")]
    assert [int(line.split("/")[0].removeprefix("step ")) for line in lines] == steps
    assert all(re.fullmatch(r"step \d/4  train/loss \S+  (val/sts \S+  )?\d+:\d\d", line) for line in lines)
    assert "\r" not in out + err
    assert re.search(r"([\d,]+) of \1 parameters are trained", caplog.text)
    assert not re.search("FLOP|Tip|LeafSpec", out + err)


def test_a_terminal_has_a_bar(
    workplace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert fit("--trainer.enable_progress_bar=true", "--trainer.max_steps=2", "--report=null", "--checkpoint=null") == 0
    assert not list(workplace.rglob("checkpoints"))
    out = capsys.readouterr().out
    assert "2/2" in out
    assert not re.search("^step ", out, re.MULTILINE)
