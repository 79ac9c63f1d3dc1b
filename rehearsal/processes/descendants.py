"""Find and end the processes under this one, those included whose parents have gone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

MARK = "EFA_RAY_TRAIN_PROCESS"
"""Environment variable of every process that a supervisor has started, and of what those start in turn.

Its value is a path of names, one of them from each supervisor on the way down, so it tells what belongs to which.
"""
_PR_SET_CHILD_SUBREAPER = 36
"""Linux: orphans among our descendants become our children. Source: prctl(2)."""
_GRACE_S = 2.0
_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class Process:
    """A living process; `session` is the pid of the process that began its session."""

    pid: int
    parent: int
    session: int


def adopt_orphans() -> None:
    """Become the parent of every process below this one whose own parent ends (Linux; nothing happens elsewhere)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def living() -> dict[int, Process]:
    """Return every process that has not ended, by pid (Linux: /proc; none elsewhere)."""
    found: dict[int, Process] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # After the name, which is in parentheses and may hold anything: state, parent, group, session.
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            state, parent, session = fields[0], int(fields[1]), int(fields[3])
        except (OSError, ValueError, IndexError):
            continue
        if state != "Z":
            pid = int(stat.parent.name)
            found[pid] = Process(pid, parent, session)
    return found


def below(roots: Iterable[int], processes: Mapping[int, Process], *, without: Collection[int] = ()) -> list[int]:
    """Return the pids under `roots`, these left out, parents first; `without` and what is under those are left out too."""
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: list[int] = []
    waiting = list(roots)
    while waiting:
        under = [pid for pid in children.get(waiting.pop(), []) if pid not in without and pid not in found]
        found += under
        waiting += under
    return found


def mark_of(pid: int) -> str:
    """Return the value of MARK in the environment that a process was started with, empty without one (Linux)."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return ""
    prefix = f"{MARK}=".encode()
    marks = [entry for entry in environment.split(b"\0") if entry.startswith(prefix)]
    return marks[0][len(prefix) :].decode(errors="replace") if marks else ""


def descendants(others: Collection[int] = ()) -> list[int]:
    """Return the pids of the living processes under this one, save `others` and what is under those (Linux: /proc).

    What a supervisor in this process has started is that one's to end, and no part of the answer.
    """
    processes = living()
    own = os.environ.get(MARK, "")
    children = [process.pid for process in processes.values() if process.parent == os.getpid()]
    supervised = {pid for pid in children if mark_of(pid) not in ("", own)}
    return below([os.getpid()], processes, without={*others, *supervised})


def end_descendants(others: Collection[int]) -> None:
    """End what is under this process, save `others` and what is under those: ask first, kill after a moment."""
    end(lambda: descendants(others), _GRACE_S)


def end(find: Callable[[], Iterable[int]], grace: float) -> None:
    """End the processes that `find` returns until it returns none: ask each once, kill after `grace` seconds."""
    deadline = time.monotonic() + grace
    asked: set[int] = set()
    while left := list(find()):
        late = time.monotonic() >= deadline
        for pid in left:
            if late or pid not in asked:
                send(pid, signal.SIGKILL if late else signal.SIGTERM)
                asked.add(pid)
        for pid in asked:
            reap(pid)
        time.sleep(_PAUSE_S)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process, which may have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def reap(pid: int) -> None:
    """Collect an adopted child that has ended; one that is another's child is collected there."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
