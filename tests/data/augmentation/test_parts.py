"""Nothing lost, nothing duplicated: killed at every step, on a full disk, by several processes."""

from __future__ import annotations

import errno
import json
import logging
import multiprocessing
import os
import random
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sentrep.data.augmentation import parts
from sentrep.data.augmentation.filters import KEPT
from sentrep.data.augmentation.parts import ROW, VERDICT, PartStore
from sentrep.data.augmentation.record import read_record
from sentrep.errors import InputError

SETTINGS = {"beams": 4, "prefixes": ("", "x"), "seed": 1}
BATCHES = [[4, 0, 2], [1, 3, 5], [8, 7, 6]]
EXPECTED = [f"row {number}" for number in range(9) if number != 7]
FORK = multiprocessing.get_context("fork")


def open_store(folder: Path, **settings: Any) -> PartStore:
    return PartStore(folder / "out.parquet", ["text"], {**SETTINGS, **settings}, {"name": "test"}, ["tokens"])


def add(store: PartStore, rows: list[int], text: str = "row {}") -> None:
    """All are kept but number 7."""
    store.add([{ROW: n, "text": text.format(n), VERDICT: "odd" if n == 7 else KEPT, "tokens": n} for n in rows])


def job(folder: Path, added: Any = None) -> None:
    """The whole work, or what is left of it."""
    store = open_store(folder)
    if store.record is None:
        for batch in BATCHES:
            if batch[0] not in store:
                add(store, batch)
                if added is not None:
                    added.value += 1
        store.publish()


def check_result(folder: Path) -> None:
    assert pq.read_table(folder / "out.parquet").to_pydict() == {"text": EXPECTED}
    record = read_record(folder / "out.parquet")
    assert (record["rows"], record["verdicts"], record["tokens"]) == (9, {KEPT: 8, "odd": 1}, 36)
    assert record["settings"] == {"beams": 4, "prefixes": ["", "x"], "seed": 1}
    assert (record["notes"], len(record["fingerprint"])) == ({"name": "test"}, 32)
    assert open_store(folder).record == record
    assert [path.name for path in folder.iterdir()] == ["out.parquet"]


def patch_steps(at: int, strike: Callable[[], None]) -> None:
    """Strike before or after the n-th call that changes the disk: 2n is before it, 2n + 1 after it."""
    calls = iter(range(10**6))

    def patched(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            number = next(calls)
            if 2 * number == at:
                strike()
            result = real(*arguments, **options)
            if 2 * number + 1 == at:
                strike()
            return result

        return step

    for name in ("fsync", "replace", "unlink", "rmdir"):
        setattr(os, name, patched(getattr(os, name)))


def killed_job(folder: Path, at: int, added: Any) -> None:
    patch_steps(at, lambda: os.kill(os.getpid(), signal.SIGKILL))
    job(folder, added)


@pytest.mark.slow
def test_killed_at_every_step_it_goes_on(tmp_path: Path) -> None:
    at, exit_code = 0, -signal.SIGKILL
    while exit_code == -signal.SIGKILL:
        folder = tmp_path / str(at)
        folder.mkdir()
        added = FORK.Value("i", 0)
        process = FORK.Process(target=killed_job, args=(folder, at, added))
        process.start()
        process.join(60)
        exit_code = process.exitcode or 0
        if not (folder / "out.parquet").exists():
            kept = len(open_store(folder))
            assert added.value * 3 <= kept <= added.value * 3 + 3, "a finished batch is gone"
        job(folder)
        check_result(folder)
        at += 1
    assert exit_code == 0
    assert at > 2 * (2 + 3 * 2 + 2 + 4)  # manifest, three parts, output, removal


def test_a_full_disk_at_every_step_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write that can fail fails once; the message is one sentence and the second start completes the work."""
    real, writes = os.fsync, 5  # manifest, three parts, output
    for at in range(writes):
        calls = iter(range(2 * writes))  # of each file, then of its folder

        def full(handle: int, at: int = at, calls: Iterator[int] = calls) -> None:
            if not stat.S_ISDIR(os.fstat(handle).st_mode) and next(calls) == at:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(handle)

        folder = tmp_path / str(at)
        folder.mkdir()
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(
            InputError, match=r"No space left on device; what is finished is kept in .* run the same command again"
        ):
            job(folder)
        monkeypatch.setattr(os, "fsync", real)
        assert not list(folder.rglob("*.tmp"))
        assert not (folder / "out.parquet").exists()
        assert len(open_store(folder)) == 3 * max(0, at - 1)
        job(folder)
        check_result(folder)


def test_rows_come_back_in_order_whatever_the_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_BLOCK", 64)  # many blocks
    draw = random.Random(7)
    numbers = list(range(1000))
    draw.shuffle(numbers)
    numbers[:500] = sorted(numbers[:500])
    store = open_store(tmp_path)
    while numbers:
        size = draw.randint(1, 9)
        add(store, numbers[:size])
        del numbers[:size]
    assert (len(store), 999 in store, 1000 in store) == (1000, True, False)
    rows = [row for table in open_store(tmp_path).tables() for row in table[ROW].to_pylist()]
    assert rows == list(range(1000))


def test_a_row_that_two_processes_did_is_there_once_and_the_last_one_publishes(tmp_path: Path) -> None:
    first, second = open_store(tmp_path), open_store(tmp_path)  # with different batch sizes
    for batch in ([0, 1, 2, 3], [4, 5, 6, 7], [8]):
        add(first, batch)
    for batch in ([1, 2], [5, 6, 0], [8]):
        add(second, batch)
    second.refresh()
    assert len(first) == len(second) == 9
    second.publish()
    first.publish()
    assert first.record == second.record
    second.refresh()
    check_result(tmp_path)


def test_other_settings_over_the_same_parts_or_the_output_are_refused(tmp_path: Path) -> None:
    add(open_store(tmp_path), BATCHES[0])
    before = {path.name: path.read_bytes() for path in (tmp_path / "out.parquet.parts").iterdir()}
    with pytest.raises(InputError, match=r"out\.parquet\.parts holds the beginning .*\(beams was 4 and is 1\); go on"):
        open_store(tmp_path, beams=1)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out.parquet.parts").iterdir()} == before
    job(tmp_path)
    check_result(tmp_path)
    content = (tmp_path / "out.parquet").read_bytes()
    with pytest.raises(InputError, match=r"exists and was made with other settings \(seed was 1 and is 2\); move it"):
        open_store(tmp_path, seed=2)
    assert (tmp_path / "out.parquet").read_bytes() == content
    for foreign in (b"no parquet", b""):
        (tmp_path / "out.parquet").write_bytes(foreign)
        with pytest.raises(InputError, match="exists and is not the work of this command"):
            open_store(tmp_path)
        assert (tmp_path / "out.parquet").read_bytes() == foreign


@pytest.mark.parametrize("damage", [lambda content: content[: len(content) // 2], lambda content: b""])
def test_a_damaged_part_is_done_again(
    tmp_path: Path, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path)
    for batch in BATCHES:
        add(store, batch)
    (path,) = (tmp_path / "out.parquet.parts").glob("part-000000000001-*.arrow")
    path.write_bytes(damage(path.read_bytes()))
    with caplog.at_level(logging.WARNING, "sentrep"):
        assert len(open_store(tmp_path)) == 6
    assert f"{path} is damaged" in caplog.text
    job(tmp_path)
    check_result(tmp_path)


def test_damaged_or_foreign_manifest(tmp_path: Path) -> None:
    add(open_store(tmp_path), BATCHES[0])
    manifest = tmp_path / "out.parquet.parts/manifest.json"
    other = json.dumps({**json.loads(manifest.read_text()), "format": 0})
    for text, message in (
        ("{", r"manifest\.json is damaged"),
        ('{"settings": 3}', r"manifest\.json is damaged"),
        (other, "begun by another version"),
    ):
        manifest.write_text(text)
        with pytest.raises(InputError, match=message):
            open_store(tmp_path)


def hold(folder: Path, ready: Any, done: Any) -> None:
    with open_store(folder).claim("shard 0 of 2"):
        ready.set()
        done.wait(60)


def test_a_share_is_claimed_by_one_process_until_it_dies(tmp_path: Path) -> None:
    ready, done = FORK.Event(), FORK.Event()
    process = FORK.Process(target=hold, args=(tmp_path, ready, done))
    process.start()
    assert ready.wait(60)
    store = open_store(tmp_path)
    with pytest.raises(InputError, match="another process is at work on shard 0 of 2"), store.claim("shard 0 of 2"):
        pass
    with store.claim("shard 1 of 2"):
        pass
    process.kill()
    process.join(60)
    with store.claim("shard 0 of 2"):
        pass
