"""What several tests share: real data where there is some, and tiny encoders."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


def shared_path(relative: str) -> Path:
    """A file or folder of the real data beside the repository; the test is skipped where it is absent."""
    path = SHARED / relative
    if not path.exists():
        pytest.skip(f"needs the real data ../shared/{relative}, which is not on this machine")
    return path
