"""A real browser without a window: Chromium, spoken to by its DevTools protocol over two pipes."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""The browser; None where there is none."""


@dataclass
class Browser:
    """One tab."""

    commands: IO[bytes]
    answers: IO[bytes]
    session: str | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    """What the page did since it was opened: ``method`` and ``params`` of the protocol's events."""
    number: int = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events that come before it are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.commands.write(json.dumps(message).encode() + b"\0")
        self.commands.flush()
        while (found := self._next()).get("id") != self.number:
            self.events.append(found)
        assert "error" not in found, f"{method}: {found['error']}"
        return found["result"]

    def open(self, address: str, width: int, height: int = 900, dark: bool = False) -> None:
        """Show a page in a window of that size, and wait until it is there."""
        self.events.clear()
        phone = {"mobile": width < 600, "deviceScaleFactor": 1}
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, **phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url=address)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    @property
    def requests(self) -> list[str]:
        """Addresses that the page asked for, its own first."""
        return [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]

    def _next(self) -> dict[str, Any]:
        message = bytearray()
        while (byte := self.answers.read(1)) != b"\0":
            assert byte, "the browser has ended"
            message += byte
        return json.loads(message)


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start it with an empty profile, and end it.

    Args:
        profile: an empty folder.
    """
    assert CHROMIUM is not None
    pipes = [os.pipe() for _ in range(2)]
    (theirs_in, ours_out), (ours_in, theirs_out) = [tuple(fcntl.fcntl(e, fcntl.F_DUPFD, 10) for e in p) for p in pipes]
    for end in sum(pipes, ()):
        os.close(end)
    words = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    words += ["--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
    # the protocol has its commands at 3 and its answers at 4
    shell = ["bash", "-c", f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}']
    process = subprocess.Popen([*shell, *words], pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL)
    os.close(theirs_in)
    os.close(theirs_out)
    with os.fdopen(ours_out, "wb") as commands, os.fdopen(ours_in, "rb") as answers:
        try:
            tab = Browser(commands, answers)
            target = tab.ask("Target.createTarget", url="about:blank")["targetId"]
            tab.session = tab.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Network", "Log", "Runtime"):
                tab.ask(f"{domain}.enable")
            yield tab
        finally:
            process.terminate()
            process.wait(30)
