"""Free ports on loopback that two parts of a rehearsal, or two rehearsals, never both get."""

from __future__ import annotations

import secrets
import socket
import sys
import threading

from rehearsal.errors import RehearsalError

_LOOPBACK = "127.0.0.1"
# Below the ports that Linux (32768) and macOS (49152) give to outgoing connections, so that none of those takes a port
# between the moment it is chosen and the moment its server listens on it.
_FIRST, _LAST = 20_000, 29_999
_lock = threading.Lock()
_given: dict[int, socket.socket | None] = {}


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 on which nothing listens, another one at each call in this process.

    On Linux no other process that chooses its ports this way gets it either, for as long as this process lives. Raises
    RehearsalError when none is free.
    """
    with _lock:
        ports = range(_FIRST, _LAST + 1)
        # Each call begins somewhere else: rehearsals that choose at the same moment seldom look at the same port.
        start = secrets.randbelow(len(ports))
        for port in (*ports[start:], *ports[:start]):
            if port in _given or not _is_free(port):
                continue
            try:
                _given[port] = _claim(port)
            except OSError:
                continue
            return port
    raise RehearsalError(
        f"ports: none of {_FIRST}-{_LAST} is free on {_LOOPBACK}; end the programs that listen there (ss -ltnp shows them)"
    )


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((_LOOPBACK, port))
        except OSError:
            return False
    return True


def _claim(port: int) -> socket.socket | None:
    """Hold a name that only one process of this machine can hold and that the kernel drops with the process."""
    if sys.platform != "linux":
        return None
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0efa-ray-train-port-{port}")
    except OSError:
        claim.close()
        raise
    return claim
