"""The store of maps: what is there is not done again, and what is there of something else is refused."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sentrep.data.parts import Parts, Text
from sentrep.data.shard import Shard
from sentrep.errors import InputError

ROWS = [f"row {number}" for number in range(10)]
ALL = Shard(0, 1, "")


def open_parts(folder: Path | str, rows: list[str] = ROWS, overwrite: bool = False, **settings: Any) -> Parts:
    save = lambda file, found: file.write(json.dumps(found).encode())  # noqa: E731
    return Parts(str(folder), Text.of(rows, "rows"), 3, ".json", save, {"seed": 1, **settings}, overwrite)


def do(parts: Parts, rows: list[str] = ROWS, shard: Shard = ALL) -> list[int]:
    """Do what is left; which parts these were."""
    done = []
    for number, some in parts.left(rows, shard):
        parts.add(number, [row.upper() for row in some])
        done.append(number)
    return done


def found(parts: Parts) -> list[str]:
    return [row for path in parts.paths() for row in json.loads(Path(path).read_text())]


def test_parts_hold_every_row_and_what_is_there_is_not_done_again(tmp_path: Path) -> None:
    parts = open_parts(tmp_path / "out")
    assert (do(parts), parts.missing()) == ([0, 1, 2, 3], 0)
    assert found(parts) == [row.upper() for row in ROWS]
    Path(parts.paths()[2]).unlink()
    assert open_parts(tmp_path / "out").missing() == 1
    assert do(open_parts(tmp_path / "out")) == [2]


def test_shards_divide_the_parts(tmp_path: Path) -> None:
    assert [do(open_parts(tmp_path / "out"), shard=Shard(index, 2, "")) for index in (1, 0)] == [[1, 3], [0, 2]]


@pytest.mark.parametrize("change", [{"seed": 2}, {"more": 1}, {"rows": [*ROWS, "one more"]}, {"rows": ROWS[::-1]}])
def test_other_settings_or_another_text_are_replaced_when_that_is_asked_for(tmp_path: Path, change: dict) -> None:
    parts = open_parts(tmp_path / "out")
    do(parts)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with pytest.raises(InputError, match=r"made otherwise \((seed was 1 and is 2|more was None|text was).*--overwrite"):
        open_parts(tmp_path / "out", **change)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert len(do(open_parts(tmp_path / "out", overwrite=True, **change), change.get("rows", ROWS))) == 4


def test_a_command_that_failed_before_its_first_part_leaves_the_folder_to_others(tmp_path: Path) -> None:
    failed = open_parts(tmp_path / "out")
    assert do(open_parts(tmp_path / "out", seed=2)) == [0, 1, 2, 3]
    with pytest.raises(InputError, match="another command with other settings has taken it over"):
        failed.missing()


def test_a_folder_is_of_the_command_that_came_last_and_the_other_one_stops(tmp_path: Path) -> None:
    first = open_parts(tmp_path / "out")
    left = first.left(ROWS, ALL)
    first.add(*next(left))
    number, some = next(left)
    second = open_parts(tmp_path / "out", overwrite=True, seed=2)
    for go_on in (
        lambda: first.add(number, some),
        first.missing,
        lambda: first.put_together(str(tmp_path / "whole"), lambda file: file.write(b"")),
    ):
        with pytest.raises(InputError, match="another command with other settings has taken it over"):
            go_on()
    assert do(second) == [0, 1, 2, 3]
    late = tmp_path / "out" / first.names[1]  # of a process that was writing when the folder was taken over
    late.write_text("[]")
    assert second.missing() == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"manifest.json", *second.names}
    assert set(first.names).isdisjoint(second.names)


def test_a_part_that_is_there_already_needs_no_second_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The half-written file of a slow process goes when another has written the last part."""
    parts = open_parts(tmp_path / "out")
    parts._save = lambda file, found: (do(open_parts(tmp_path / "out")), parts.missing())
    parts.add(3, [])
    assert found(parts) == [row.upper() for row in ROWS]


def test_a_folder_of_something_else_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "part-00000.json").write_text("mine")
    with pytest.raises(InputError, match=r"holds part-00000\.json, which is no part"):
        open_parts(tmp_path, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["part-00000.json"]


def test_put_together_once_even_by_two(tmp_path: Path) -> None:
    first, second = open_parts(tmp_path / "out.parts"), open_parts(tmp_path / "out.parts")
    do(first)
    write = lambda file: file.write("\n".join(found(first)).encode())  # noqa: E731
    first.put_together(str(tmp_path / "out"), write)
    assert (tmp_path / "out").read_text().split("\n") == [row.upper() for row in ROWS]
    second.put_together(str(tmp_path / "out"), write)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with pytest.raises(InputError, match=r"out\.parts: has gone"):
        do(second)


def test_a_full_disk_at_every_step_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write that can fail fails once; the message is one sentence and the second start completes the work."""
    real = os.fsync
    for at in range(5):  # manifest, four parts
        calls = iter(range(10))

        def full(handle: int, at: int = at, calls: Iterator[int] = calls) -> None:
            if not stat.S_ISDIR(os.fstat(handle).st_mode) and next(calls) == at:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(handle)

        folder = tmp_path / str(at)
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match="No space left on device"):
            do(open_parts(folder))
        monkeypatch.setattr(os, "fsync", real)
        assert not list(folder.rglob("*.tmp"))
        assert do(open_parts(folder)) == list(range(max(0, at - 1), 4))
