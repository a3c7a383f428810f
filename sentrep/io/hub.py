"""Requests to the Hub that fail at once without a network."""

from __future__ import annotations

import functools
import socket
from typing import Any
from urllib.request import getproxies, proxy_bypass

from huggingface_hub import get_session
from huggingface_hub.errors import OfflineModeIsEnabled


def fail_fast() -> None:
    """Let every request to a host whose name cannot be resolved fail at once, from now on and in all libraries.

    huggingface_hub tries each of them six times, half a minute in all, and a model is several files. The failure is the
    one of HF_HUB_OFFLINE, so that what lies in the cache is taken as it is there.
    """
    hooks = (session := get_session()).event_hooks
    if _refuse not in hooks["request"]:
        session.event_hooks = {**hooks, "request": [_refuse, *hooks["request"]]}


def _refuse(request: Any) -> None:
    host = request.url.host
    if not _resolves(host):
        raise OfflineModeIsEnabled(f"the name {host} cannot be resolved; is there a network?")


@functools.cache  # the system may wait for seconds before it gives up
def _resolves(host: str) -> bool:
    proxies = getproxies()
    if ("https" in proxies or "all" in proxies) and not proxy_bypass(host):
        return True  # the proxy's affair
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True
