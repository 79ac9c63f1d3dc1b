"""Locks that a killed engine has left in the state: removed where their owner is surely gone, named where it is not."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from rehearsal.engine.state import State
from rehearsal.errors import RehearsalError


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock file of Pulumi's file backend. Source of the format: pkg/backend/diy/lock.go in pulumi/pulumi."""

    path: Path
    pid: int
    user: str
    host: str
    since: str

    @property
    def stale(self) -> bool:
        """Return whether the owner ran on this machine and is gone."""
        return self.host == socket.gethostname() and not _is_pulumi(self.pid)


def find_locks(state: State) -> list[Lock]:
    """Return the locks of every stack in the state, sorted by path."""
    return [_read(path) for path in sorted((state.backend / ".pulumi" / "locks").rglob("*.json"))]


def remove_stale_locks(state: State, stack: str) -> list[Lock]:
    """Remove the locks of `stack` whose owner is gone and return them.

    Raises RehearsalError when the stack is locked by a run that is alive, or by one that cannot be looked at from here.
    """
    removed: list[Lock] = []
    for lock in find_locks(state):
        if lock.path.parent.name != stack:
            continue
        if not lock.stale:
            raise RehearsalError(
                f"stack {stack}: locked by {lock.user}@{lock.host} (pid {lock.pid}) since {lock.since}; "
                f"wait for that run or end it; if there is none, delete {lock.path}"
            )
        lock.path.unlink(missing_ok=True)
        removed.append(lock)
    return removed


def _read(path: Path) -> Lock:
    try:
        content: dict[str, str | int] = json.loads(path.read_text(encoding="utf-8"))
        return Lock(
            path, int(content["pid"]), str(content["username"]), str(content["hostname"]), str(content["timestamp"])
        )
    except (ValueError, KeyError, TypeError):
        # A lock that was cut off while it was written: its writer did not live to hold it.
        return Lock(path, 0, "nobody", socket.gethostname(), "its writer was killed")


def _is_pulumi(pid: int) -> bool:
    """Return whether `pid` is alive and may be an engine; a number that another program has got since is not."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return True
    return name.startswith("pulumi")
