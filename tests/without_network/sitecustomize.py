"""No test reaches the network: connections other than to this machine are refused.

Python imports this module by itself at the start of every process that has this folder on its path; `conftest.py` puts
it there, so that the processes which tests start are blocked as well.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

_connect, _connect_ex, _sendto = socket.socket.connect, socket.socket.connect_ex, socket.socket.sendto
_getaddrinfo = socket.getaddrinfo


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


def check(place: socket.socket, address: Any) -> None:
    """Refuse an internet address of another machine."""
    if place.family in (socket.AF_INET, socket.AF_INET6) and not is_local(address[0]):
        raise BlockedError(f"the tests are offline, and {address[0]}:{address[1]} is another machine")


def connect(self: socket.socket, address: Any) -> None:
    """In the place of socket.connect."""
    check(self, address)
    _connect(self, address)


def connect_ex(self: socket.socket, address: Any) -> int:
    """In the place of socket.connect_ex."""
    check(self, address)
    return _connect_ex(self, address)


def sendto(self: socket.socket, data: Any, *rest: Any) -> int:
    """In the place of socket.sendto, which needs no connection."""
    check(self, rest[-1])
    return _sendto(self, data, *rest)


def getaddrinfo(host: Any, *rest: Any, **options: Any) -> Any:
    """In the place of socket.getaddrinfo: asking for a name is traffic, too."""
    if not is_local(host):
        raise socket.gaierror(socket.EAI_NONAME, f"the tests are offline, and {host} is another machine")
    return _getaddrinfo(host, *rest, **options)


def block() -> None:
    """From now on, in this process."""
    socket.socket.connect = connect  # type: ignore[method-assign,assignment]
    socket.socket.connect_ex = connect_ex  # type: ignore[method-assign,assignment]
    socket.socket.sendto = sendto  # type: ignore[method-assign,assignment]
    socket.getaddrinfo = getaddrinfo  # type: ignore[assignment]


def allow() -> None:
    """As it was."""
    socket.socket.connect, socket.socket.connect_ex = _connect, _connect_ex  # type: ignore[method-assign]
    socket.socket.sendto, socket.getaddrinfo = _sendto, _getaddrinfo  # type: ignore[method-assign]


block()
