"""End what a supervisor has started once the supervisor itself is gone, killed or not.

A process of its own, because nothing inside a killed one can act. Its input is a pipe from the supervisor: a line for
each process that is started or stopped, `+PID` or `-PID`. The end of that input means that the supervisor has gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from rehearsal.errors import RehearsalError
from rehearsal.processes.descendants import MARK, below, living, mark_of, send

_REPOSITORY = Path(__file__).resolve().parents[2]
_MAIN = "import sys; sys.path.insert(0, sys.argv[1]); from rehearsal.processes.keeper import keep; keep(sys.argv[2])"
_READY = b"ready\n"
_PATIENCE_S = 10.0
_PAUSE_S = 0.02


class Keeper:
    """The supervisor's end of the pipe. `mark` begins the marks of all that it starts, `outer` is the supervisor's own.

    Raises RehearsalError when the keeper cannot be started.
    """

    def __init__(self, mark: str, *, outer: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _MAIN, str(_REPOSITORY), mark],
            # Marked like what it watches over, so that nothing takes it for a forgotten child, but not with its mark.
            env={**os.environ, MARK: f"{outer}keeper/"},
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # An interrupt from the terminal is for the supervisor, which then stops things in order.
            start_new_session=True,
        )
        if self._process.stdout is None or self._process.stdout.readline() != _READY:
            self.close()
            raise RehearsalError(
                f"keeper of processes: {sys.executable} ended with status {self._process.returncode} instead of running it; "
                "nothing is started that could be left behind: mend that Python"
            )

    def watch(self, pid: int) -> None:
        """End the session of `pid` when this process is gone."""
        self._tell(f"+{pid}\n")

    def forget(self, pid: int) -> None:
        """Leave the session of `pid` alone: it has ended, and the number may become another's."""
        self._tell(f"-{pid}\n")

    def close(self) -> None:
        """Let the keeper end whatever is still there, and wait for it."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _tell(self, line: str) -> None:
        if self._process.stdin is not None:
            # A keeper that somebody has killed keeps nothing, which is no reason to start or stop nothing.
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()


def belonging(mark: str, sessions: Iterable[int]) -> list[int]:
    """Return the living processes with a mark that begins with `mark`, in one of `sessions`, or below one of those.

    Three ways, since each can be lost: a program may overwrite its environment, begin a session, or end before its children.
    """
    processes = living()
    known = set(sessions)
    roots = [pid for pid, process in processes.items() if process.session in known or mark_of(pid).startswith(mark)]
    own = os.getpid()
    return [pid for pid in dict.fromkeys([*roots, *below(roots, processes)]) if pid != own]


def keep(mark: str) -> None:
    """Wait for the end of the input, then kill what belongs to `mark` and the sessions that were told of."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()
    sessions: set[int] = set()
    for line in sys.stdin:
        pid = int(line[1:])
        if line.startswith("+"):
            sessions.add(pid)
        else:
            sessions.discard(pid)
    deadline = time.monotonic() + _PATIENCE_S
    if sys.platform != "linux":
        for session in sessions:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(session, signal.SIGKILL)
    while (left := belonging(mark, sessions)) and time.monotonic() < deadline:
        for pid in left:
            send(pid, signal.SIGKILL)
        time.sleep(_PAUSE_S)
