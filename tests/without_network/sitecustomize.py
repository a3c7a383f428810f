"""No test reaches the network: connections other than to this machine are refused.

Python imports this module by itself at the start of every process that has this folder on its path; `conftest.py` puts
it there, so that the processes which tests start are blocked as well.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
from typing import Any

blocked = True
"""Whether connections are refused."""


class BlockedError(OSError):
    """Something wanted to leave this machine. An OSError, as on a machine without a network."""


def is_local(host: Any) -> bool:
    """Whether a host is this machine; unresolved names other than localhost are not."""
    if isinstance(host, bytes):
        host = host.decode()
    if host in (None, "", "localhost", socket.gethostname()):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified or is_own(address)


def is_own(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether an address is one of this machine's, by which Ray's processes call each other: it can be bound to."""
    with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True


def check(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse an internet address of another machine, and to ask for its name, which is traffic, too."""
    if not blocked or not event.startswith("socket."):
        return
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        place, address = arguments
        if place.family in (socket.AF_INET, socket.AF_INET6) and address is not None and not is_local(address[0]):
            raise BlockedError(f"the tests are offline, and {address[0]}:{address[1]} is another machine")
    if event in ("socket.getaddrinfo", "socket.gethostbyname") and not is_local(arguments[0]):
        raise socket.gaierror(socket.EAI_NONAME, f"the tests are offline, and {arguments[0]} is another machine")


sys.addaudithook(check)
