"""Who uses a state: runs share it, and only who has it alone may remove what is in it."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from rehearsal.engine.state import State, open_state
from rehearsal.errors import RehearsalError

_LOCK = "in-use"
"""A file that each run locks, shared; the kernel drops the lock with its process."""
_RUN = "run-"


@contextmanager
def run_directory(project: Path) -> Generator[tuple[State, Path]]:
    """Open the state of `project` for one run and give it, with a directory of that run's own, removed at the end.

    Directories of runs that were killed are removed first, where no other run uses the state. Raises RehearsalError when
    the state cannot be made.
    """
    state, descriptor = _share(project)
    try:
        with tempfile.TemporaryDirectory(dir=state.root, prefix=f"{_RUN}{os.getpid()}-") as directory:
            yield state, Path(directory)
    finally:
        os.close(descriptor)


@contextmanager
def alone(state: State) -> Generator[None]:
    """Have the state alone. Raises RehearsalError when a run uses it."""
    descriptor = _open(state)
    try:
        if not _try_alone(descriptor):
            named = {path.name.split("-")[1] for path in state.root.glob(f"{_RUN}*-*")}
            pids = sorted(pid for pid in named if _is_alive(pid))
            raise RehearsalError(
                f"state {state.root}: a preview is running in this state (pid {', '.join(pids) or 'unknown'}); "
                "wait for it or end it"
            )
        yield
    finally:
        os.close(descriptor)


def _share(project: Path) -> tuple[State, int]:
    while True:
        state = open_state(project)
        descriptor = _open(state)
        try:
            if _try_alone(descriptor):
                for leftover in state.root.glob(f"{_RUN}*"):
                    shutil.rmtree(leftover, ignore_errors=True)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            # Whoever had the state alone may have removed it, this file too: then it is made again.
            if os.fstat(descriptor).st_nlink:
                return state, descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _open(state: State) -> int:
    return os.open(state.root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_alone(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True
