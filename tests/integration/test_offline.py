"""The wall around the tests stands: here, in processes that they start, and for everything but this machine."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from sentrep import InputError
from sentrep.data import load
from sentrep.encoder.loading.model import open_model

ELSEWHERE = ("192.0.2.1", 80)  # an address that belongs to nobody (RFC 5737)
TRY = "import socket; s = socket.socket(); s.settimeout(1); s.connect(('192.0.2.1', 80))"


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
@pytest.mark.parametrize("method", ["connect", "connect_ex"])
def test_no_connection_leaves_this_machine(family: socket.AddressFamily, method: str) -> None:
    address = ELSEWHERE if family == socket.AF_INET else ("2001:db8::1", 80)
    with socket.socket(family) as place, pytest.raises(OSError, match="the tests are offline"):
        getattr(place, method)(address)


def test_nor_in_a_process_that_a_test_starts() -> None:
    done = subprocess.run([sys.executable, "-c", TRY], capture_output=True, text=True, check=False)
    assert "BlockedError: the tests are offline" in done.stderr


def test_the_hub_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="the model hub did not answer"):
        open_model("owner/no-such-model")
    with pytest.raises(InputError, match="cannot be downloaded from the Hub"):
        load("owner/name")
    assert "Retrying" not in capfd.readouterr().err
