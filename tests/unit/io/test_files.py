"""Files written whole or not at all, and locks."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sentrep import InputError
from sentrep.io.files import atomic_folder, atomic_write, hold, remove_leftovers, write_text
from support import forked


def write_slowly(path: Path) -> None:
    """What a process is killed in."""
    with atomic_write(path, "w") as file:
        file.write("half")
        file.flush()
        (path.parent / "begun").touch()
        time.sleep(60)


def keep(path: Path) -> None:
    """Hold a lock until this process is killed."""
    with hold(path, "x"):
        (path.parent / "begun").touch()
        time.sleep(60)


@contextlib.contextmanager
def beginning(function: Callable[[Path], None], path: Path) -> Iterator[None]:
    """A process of its own that has begun, and is killed at the end."""
    process = forked(function, path)
    while not (path.parent / "begun").exists():
        assert process.is_alive()
        time.sleep(0.01)
    (path.parent / "begun").unlink()
    yield
    process.kill()
    process.join()


def test_a_failed_write_leaves_the_older_file_and_nothing_else(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "old")
    with contextlib.suppress(RuntimeError), atomic_write(tmp_path / "a", "w") as file:
        file.write("new")
        raise RuntimeError
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "old"}


def test_the_rights_are_those_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        write_text(tmp_path / "a", "for the group")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o664


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    with beginning(write_slowly, tmp_path / "a"):
        assert len(list(tmp_path.iterdir())) == 1
    (tmp_path / ".of.others.tmp").touch()
    write_text(tmp_path / "a", "again")
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".of.others.tmp", "a"]


def test_of_folders_written_at_once_one_appears_and_what_was_killed_goes(tmp_path: Path) -> None:
    (tmp_path / ".model.0123abcd.tmp" / ".x.0123abcd.tmp").mkdir(parents=True)  # below a folder that goes itself

    def write(names: list[str]) -> None:
        with atomic_folder(tmp_path / "model") as folder:
            (folder / "a").write_text(names[0])
            if names[1:]:
                write(names[1:])
            assert folder.is_dir()

    with pytest.raises(OSError, match="model"):
        write(["first", "second"])
    (tmp_path / ".other.0123abcd.tmp").mkdir()
    remove_leftovers(tmp_path / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.0123abcd.tmp", "model"]
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model" / "a").read_text() == "second"


def test_a_lock_is_refused_until_its_holder_ends(tmp_path: Path) -> None:
    busy = pytest.raises(InputError, match="another process is at work on the run")
    with beginning(keep, tmp_path / "lock"), busy, hold(tmp_path / "lock", "the run"):
        pass
    start = time.monotonic()
    with hold(tmp_path / "lock", "the run"):
        assert time.monotonic() - start < 5


def test_a_folder_appears_whole_and_an_older_one_keeps_its_files_where_that_fails(tmp_path: Path) -> None:
    def fill(fail: bool = False, text: str = "new") -> None:
        with atomic_folder(tmp_path / "model") as folder:
            assert not (tmp_path / "model" / "a").exists() or (tmp_path / "model" / "a").read_text() != text
            (folder / "a").write_text(text)
            (folder / "below").mkdir()
            (folder / "below" / "b").write_text(text)
            if fail:
                raise RuntimeError

    def found() -> dict[str, str]:
        files = (path for path in tmp_path.rglob("*") if path.is_file())
        return {path.relative_to(tmp_path).as_posix(): path.read_text() for path in files}

    with atomic_folder(tmp_path) as folder:  # of one that is there, which may be a disk of its own
        assert folder.parent == tmp_path
    with contextlib.suppress(RuntimeError):
        fill(fail=True)
    assert list(tmp_path.iterdir()) == []
    fill(text="old")
    (tmp_path / "model" / "mine").write_text("mine")
    with contextlib.suppress(RuntimeError):
        fill(fail=True)
    assert found() == {"model/a": "old", "model/below/b": "old", "model/mine": "mine"}
    fill()
    assert found() == {"model/a": "new", "model/below/b": "new", "model/mine": "mine"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
