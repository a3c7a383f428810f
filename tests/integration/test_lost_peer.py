"""A process of a distributed run is killed: the others end soon, with one sentence."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from torch.distributed import DistError

from sentrep.cli import main
from sentrep.distributed import explain_lost_peer, says_peer_is_lost
from sentrep.errors import InputError
from support import forked_ranks

LOST = "sentrep: error: another process of this run was lost"


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_the_other_ends_with_a_sentence(victim: int, workplace: Path) -> None:
    ddp = ["--trainer.strategy=ddp", "--trainer.devices=2", "--data.batch_size=2", "--trainer.max_steps=100000"]
    processes = forked_ranks(main, ["fit", "-c", "run.yaml", *ddp])
    log, other = Path(f"said-{1 - victim}.txt"), processes[1 - victim]
    try:
        while not list(Path("runs").rglob("last.ckpt")):
            assert all(process.is_alive() for process in processes), log.read_text()
            time.sleep(0.1)
        processes[victim].kill()
        other.join(60)
        assert other.exitcode == 1
    finally:
        for process in processes:
            process.kill()
    assert LOST in log.read_text()
    assert "Traceback" not in log.read_text()


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
