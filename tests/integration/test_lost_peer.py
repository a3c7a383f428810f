"""A process of a distributed run is killed: the others end soon, with one sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from torch.distributed import DistError

from sentrep.distributed import explain_lost_peer, says_peer_is_lost
from sentrep.errors import InputError

LOST = "sentrep: error: another process of this run was lost"


def lives(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())  # empty: ended, and nobody has asked how
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the second process under /proc")
@pytest.mark.parametrize("victim", [0, 1])
def test_the_others_end_with_a_sentence(victim: int, workplace: Path) -> None:
    ddp = ["--trainer.strategy=ddp", "--trainer.devices=2", "--data.batch_size=2", "--trainer.max_steps=100000"]
    with Path("log.txt").open("wb") as log:
        first = subprocess.Popen(
            [sys.executable, "-m", "sentrep", "fit", "-c", "run.yaml", *ddp],
            env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=log, stderr=log,
        )  # fmt: skip
    other: list[int] = []
    try:
        deadline = time.monotonic() + 240
        while not list(Path("runs").rglob("last.ckpt")):
            assert first.poll() is None, Path("log.txt").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        other = [int(pid) for pid in Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()]
        os.kill([first.pid, other[0]][victim], signal.SIGKILL)
        deadline = time.monotonic() + 60
        while LOST not in Path("log.txt").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert first.wait(60) == (1 if victim else -signal.SIGKILL)
        while lives(other[0]):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        first.kill()
        for pid in other:
            if lives(pid):
                os.kill(pid, signal.SIGKILL)
    assert "Traceback" not in Path("log.txt").read_text()


def test_only_a_lost_connection_is_a_lost_process() -> None:
    assert says_peer_is_lost(RuntimeError("[/a/gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:3971"))
    assert not says_peer_is_lost(RuntimeError("[enforce fail at gloo/allreduce.cc:5] 1 == 2"))
    assert not says_peer_is_lost(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


@pytest.mark.parametrize(
    "message",
    [
        "ncclRemoteError: a call failed",
        "remote process exited or there was a network error",
        "Connection reset by peer",
        "a lost connection",
        "wait timed out after 1800 s",
        "Timed out",
        "socket Timeout",
        "a timeout of 30 s",
        "Broken pipe",
    ],
)
def test_a_back_end_s_words_for_a_lost_process(message: str) -> None:
    assert says_peer_is_lost(DistError(message))
    assert not says_peer_is_lost(DistError("invalid usage"))
    with pytest.raises(InputError, match="another process of this run was lost"), explain_lost_peer():
        raise DistError(message)


def test_other_errors_stay_as_they_are() -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2"), explain_lost_peer():
        raise RuntimeError("mat1 and mat2")
