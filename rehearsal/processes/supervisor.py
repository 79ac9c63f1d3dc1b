"""Start processes, wait until they are ready, and stop them with everything that they have started."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rehearsal.errors import RehearsalError
from rehearsal.processes.descendants import MARK, adopt_orphans, end
from rehearsal.processes.keeper import Keeper, belonging

Ready = Callable[[], str | None]
"""Answers None when the process does its work, else why it does not yet."""

_PAUSE_S = 0.05
_GRACE_S = 5.0
_LOG_LINES = 5
_LOG_CHARACTERS = 600


class Supervised:
    """One process of a supervisor."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path, mark: str) -> None:
        self.name = name
        self.log = log
        """File of what it writes to stdout and stderr."""
        self._process = process
        self._mark = mark

    @property
    def pid(self) -> int:
        """Return its process id, which is that of its session as well."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Return whether it still runs."""
        return self._process.poll() is None

    @property
    def exit_status(self) -> int | None:
        """Return its exit status once it has ended (minus the signal that ended it), None before."""
        return self._process.poll()

    def wait_ready(self, ready: Ready, timeout: float) -> None:
        """Wait until `ready` answers None.

        Raises RehearsalError with the last lines of the log when the process ends before, or is not ready in `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while True:
            if not self.alive:
                raise RehearsalError(
                    f"{self.name}: {_ending(self.exit_status)} before it was ready; {self.last_words()}"
                )
            why = ready()
            if why is None:
                return
            if time.monotonic() >= deadline:
                raise RehearsalError(f"{self.name}: not ready after {timeout:.0f} s: {why}; {self.last_words()}")
            time.sleep(_PAUSE_S)

    def last_words(self) -> str:
        """Return the last lines of the log in one, and where the whole of it is."""
        with self.log.open(encoding="utf-8", errors="replace") as lines:
            last = [line.strip() for line in deque(lines, maxlen=_LOG_LINES) if line.strip()]
        text = " | ".join(last) or "nothing"
        text = text if len(text) <= _LOG_CHARACTERS else f"... {text[-_LOG_CHARACTERS:]}"
        return f"its log says: {text}; all of it: {self.log}"

    def end(self, grace: float) -> None:
        """Ask the process to end, kill it after `grace` seconds, then kill what it leaves, as the end of a container does."""
        if grace > 0 and self.alive:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace)
        if self.alive:
            self._process.kill()
        self._process.wait()
        if sys.platform != "linux":
            # Nothing can be looked up there: the process group is what is known of its children.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        end(lambda: belonging(self._mark, [self.pid]), grace=0)


class Supervisor:
    """The processes whose pid files and logs are in one directory: NAME.pid, NAME.log and the previous NAME.log.1.

    Each process has a session of its own, so it gets no interrupt from a terminal, and its end is the end of all that it
    has started. None outlives this process, however that one ends: a keeper beside it sees to that (on Linux; elsewhere
    those survive that have begun a session of their own). It may be used from any thread.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._outer = os.environ.get(MARK, "")
        self._mark = f"{self._outer}{secrets.token_hex(6)}."
        self._running: dict[str, Supervised] = {}
        self._keeper: Keeper | None = None
        self._lock = threading.RLock()

    @property
    def running(self) -> Mapping[str, Supervised]:
        """Return what was started and not stopped, by name, in the order of their starts; some may have ended."""
        with self._lock:
            return dict(self._running)

    def launch(self, name: str, command: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> Supervised:
        """Start a process without waiting for more than that it runs. `env` is its whole environment.

        Raises RehearsalError when the program cannot be run, or a process of that name still runs.
        """
        with self._lock:
            self._refuse_second(name)
            adopt_orphans()
            self.directory.mkdir(parents=True, exist_ok=True)
            if self._keeper is None:
                self._keeper = Keeper(self._mark, outer=self._outer)
            log = self.directory / f"{name}.log"
            if log.exists():
                log.replace(log.with_name(f"{name}.log.1"))
            mark = f"{self._mark}{name}/"
            with log.open("wb") as output:
                try:
                    process = subprocess.Popen(
                        list(command),
                        env={**env, MARK: mark},
                        cwd=cwd,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                except OSError as error:
                    raise RehearsalError(
                        f"{name}: {command[0]} cannot be run in {cwd}: {error.strerror}; a program is expected there"
                    ) from error
            self._keeper.watch(process.pid)
            (self.directory / f"{name}.pid").write_text(f"{process.pid}\n", encoding="utf-8")
            supervised = self._running[name] = Supervised(name, process, log, mark)
            return supervised

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        ready: Ready,
        timeout: float,
    ) -> Supervised:
        """Start a process and wait until it is ready; one that does not become so is stopped.

        Raises RehearsalError as `launch` and `Supervised.wait_ready` do.
        """
        supervised = self.launch(name, command, env=env, cwd=cwd)
        try:
            supervised.wait_ready(ready, timeout)
        except BaseException:
            self.stop(name, grace=0)
            raise
        return supervised

    def stop(self, name: str, grace: float = _GRACE_S) -> None:
        """Stop a process with all that it has started: asked first, killed after `grace` seconds. None of that name: nothing."""
        with self._lock:
            supervised = self._running.get(name)
        if supervised is None:
            return
        supervised.end(grace)
        with self._lock:
            if self._running.get(name) is supervised:
                del self._running[name]
                (self.directory / f"{name}.pid").unlink(missing_ok=True)
            if self._keeper is not None:
                self._keeper.forget(supervised.pid)

    def stop_all(self, grace: float = _GRACE_S) -> None:
        """Stop everything, the last started first."""
        for name in reversed(list(self.running)):
            self.stop(name, grace)
        with self._lock:
            if self._keeper is not None and not self._running:
                self._keeper.close()
                self._keeper = None

    def _refuse_second(self, name: str) -> None:
        present = self._running.get(name)
        if present is None:
            return
        if present.alive:
            raise RehearsalError(f"{name}: runs already as process {present.pid}; stop it before it is started again")
        # It has ended by itself, but what it has started may be there.
        self.stop(name, grace=0)


def _ending(status: int | None) -> str:
    if status is not None and status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"
