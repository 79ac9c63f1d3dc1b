"""The Python processes that the host starts for the engine, and their end."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from rehearsal.language_host.tether import PRELOAD_VARIABLE, SPARE, Order

_TETHER = Path(__file__).with_name("tether.py")
_GRACE_S = 2.0


class Children:
    """Start Python programs that never outlive this process, and end all of them at once."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._closed = False
        # Never written to: the children see its end when this process is gone, killed or not.
        self._tether, self._held = os.pipe()
        self._spare: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        """Start a spare that imports what EFA_RAY_TRAIN_PRELOAD names, while the engine still has other things to do.

        The next child that is not piped takes its place. The imports are most of a program's time, and the engine
        loads the policy pack first.
        """
        with self._lock:
            if self._spare is None and not self._closed and os.environ.get(PRELOAD_VARIABLE):
                self._spare = self._spawn([SPARE], cwd=None, env=os.environ, stdin=subprocess.PIPE, piped=False)

    def start(
        self, target: Sequence[str], *, cwd: str, env: Mapping[str, str], piped: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start this Python with `target` (a file or `-m module`, then arguments).

        With `piped` its output can be read from the returned process; otherwise it goes where the host's goes, which
        the engine shows. Raises RuntimeError after `end_all`.
        """
        with self._lock:
            if self._closed:
                raise RuntimeError("the language host is shutting down")
            if not piped and self._spare is not None and self._spare.poll() is None:
                child, self._spare = self._spare, None
            else:
                return self._spawn(target, cwd=cwd, env=env, stdin=subprocess.DEVNULL, piped=piped)
        order: Order = {"target": list(target), "cwd": cwd, "env": dict(env)}
        if child.stdin is not None:
            # A spare that dies now is found by the wait for its exit status.
            with contextlib.suppress(BrokenPipeError), child.stdin as line:
                line.write(json.dumps(order).encode() + b"\n")
        return child

    def _spawn(
        self, target: Sequence[str], *, cwd: str | None, env: Mapping[str, str], stdin: int, piped: bool
    ) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            # Unbuffered, as the official host does it: a policy pack writes its port to a pipe and flushes nothing.
            [sys.executable, "-u", str(_TETHER), str(self._tether), *target],
            cwd=cwd,
            env=dict(env),
            stdin=stdin,
            stdout=subprocess.PIPE if piped else None,
            stderr=subprocess.PIPE if piped else None,
            pass_fds=(self._tether,),
            # The engine interrupts the host's group when a run has failed; a program would answer with a traceback.
            process_group=0,
        )
        self._running.add(child)
        return child

    def wait(self, child: subprocess.Popen[bytes]) -> int:
        """Wait for a child and return its exit status."""
        status = child.wait()
        with self._lock:
            self._running.discard(child)
        return status

    def end(self, child: subprocess.Popen[bytes]) -> None:
        """Ask a child to end, and kill it if it does not do so soon."""
        if child.poll() is not None:
            return
        child.terminate()
        try:
            child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()

    def end_all(self) -> None:
        """End every child; none can be started afterwards."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        for child in running:
            self.end(child)
