"""Run the engine as a child and leave nothing of it behind: not on Ctrl-C, not when it is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, TextIO

from rehearsal.processes.descendants import adopt_orphans, descendants, end_descendants

_PATIENCE_S = 10.0
_GRACE_S = 2.0
_TOLD_LINES = 40


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an engine run ended: its exit status, the signal that interrupted it (0 for none), its last lines on stderr."""

    status: int
    interrupted: int
    errors: tuple[str, ...]


def run_engine(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    quiet: bool = False,
    stdout: IO[str] | None = None,
) -> Outcome:
    """Run an engine command to its end, its output going to `stdout` or where ours goes (`quiet`: nowhere; the outcome has the errors).

    An interrupt lets the engine end its work in order: once, then it is killed if it takes longer than 10 s. Whatever
    the engine has started and left is ended before this returns (on Linux; elsewhere the plugins end by themselves when
    they see their engine gone).
    """
    adopt_orphans()
    others = frozenset(descendants())
    shared_terminal = sys.stdin.isatty()
    interrupted = 0
    # On a terminal the engine must stay in the foreground group, or it could not draw; the terminal interrupts both.
    with subprocess.Popen(
        list(command),
        env=dict(env),
        cwd=cwd,
        stdin=None if shared_terminal else subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if quiet else stdout,
        stderr=subprocess.PIPE,
        process_group=None if shared_terminal else 0,
    ) as process:

        def interrupt(number: int, _frame: FrameType | None) -> None:
            nonlocal interrupted
            if not interrupted:
                interrupted = number
                if not (shared_terminal and number == signal.SIGINT):
                    process.send_signal(signal.SIGINT)
                threading.Thread(target=_kill_after, args=(process, _PATIENCE_S), daemon=True).start()

        previous = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        errors: deque[str] = deque(maxlen=_TOLD_LINES)
        relay = threading.Thread(
            target=_relay, args=(process.stderr, None if quiet else sys.stderr, errors), daemon=True
        )
        relay.start()
        try:
            status = process.wait()
        finally:
            end_descendants(others)
            # Where orphans cannot be found, one that holds the pipe must not hold us.
            relay.join(_GRACE_S)
            for number, handler in previous.items():
                signal.signal(number, handler)
    return Outcome(status, interrupted, tuple(errors))


def _relay(source: IO[bytes] | None, target: TextIO | None, kept: deque[str]) -> None:
    for line in source or ():
        text = line.decode(errors="replace")
        kept.append(text.rstrip("\n"))
        if target is not None:
            target.write(text)
            target.flush()


def _kill_after(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
