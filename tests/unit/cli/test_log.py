"""What a command says on standard error."""

from __future__ import annotations

import warnings

from sentrep.cli import log


def test_a_warning_of_ours_is_a_sentence_and_one_of_others_keeps_its_place() -> None:
    log.show_log()
    ours = warnings.formatwarning("mind \x1b[31mthis", UserWarning, log.__file__, 1)
    assert ours.startswith("sentrep: warning: mind ")
    assert "\x1b" not in ours
    assert "elsewhere.py:1: UserWarning: mind that" in warnings.formatwarning(
        "mind that", UserWarning, "elsewhere.py", 1
    )
