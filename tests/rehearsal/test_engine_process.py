"""The engine as a child process: its output, its interruption, and nothing left of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")

# Runs argv[1] as the engine and prints the outcome. A child of its own must survive the engine.
RUN = """
import json, subprocess, sys
from pathlib import Path
from rehearsal.engine.process import run_engine

own = subprocess.Popen(["sleep", "60"])
outcome = run_engine([sys.executable, "-c", sys.argv[1]], env={"PATH": "/usr/bin:/bin"}, cwd=Path.cwd())
survived = own.poll() is None
own.kill()
print(json.dumps([outcome.status, outcome.interrupted, list(outcome.errors), survived]))
"""

# An engine with a plugin in a process group of its own, which ignores a polite request.
ENGINE = """
import os, signal, subprocess, sys, time
plugin = subprocess.Popen(
    [sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"],
    process_group=0, stdout=subprocess.PIPE)
plugin.stdout.readline()
print("plugin", plugin.pid, "engine", os.getpid(), file=sys.stderr, flush=True)
"""


@contextmanager
def start(engine: str) -> Generator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", RUN, engine],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def outcome(process: subprocess.Popen[str]) -> tuple[int, int, list[str], bool]:
    out, _ = process.communicate(timeout=60)
    status, interrupted, errors, survived = json.loads(out.splitlines()[-1])
    return status, interrupted, errors, survived


def pids(line: str) -> tuple[int, int]:
    _, plugin, _, engine = line.split()
    return int(plugin), int(engine)


def gone(*numbers: int) -> bool:
    return not any(alive(number) for number in numbers)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.05)


def test_status_and_errors_come_back() -> None:
    with start("import sys; print('to stdout'); print('why', file=sys.stderr); sys.exit(6)") as process:
        out, err = process.communicate(timeout=60)
    assert out.splitlines()[0] == "to stdout"
    assert json.loads(out.splitlines()[1]) == [6, 0, ["why"], True]
    assert err == "why\n"


def test_what_the_engine_leaves_is_ended_and_our_own_children_are_not() -> None:
    with start(ENGINE + "os._exit(0)") as process:
        status, _, errors, survived = outcome(process)
    assert (status, survived) == (0, True)
    assert gone(*pids(errors[0]))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_reaches_the_engine_once_and_leaves_nothing(number: signal.Signals) -> None:
    engine = ENGINE + (
        "def end(*_):\n    os.write(2, b'cancelled\\n')\n    os._exit(8)\n"
        "signal.signal(signal.SIGINT, end)\nprint('ready', file=sys.stderr, flush=True)\ntime.sleep(600)"
    )
    with start(engine) as process:
        assert process.stderr is not None
        plugin, pid = pids(process.stderr.readline())
        process.stderr.readline()
        process.send_signal(number)
        status, interrupted, errors, survived = outcome(process)
    assert (status, interrupted, survived) == (8, number, True)
    assert errors[2:] == ["cancelled"]
    assert gone(plugin, pid)


def test_a_killed_engine_leaves_nothing() -> None:
    with start(ENGINE + "time.sleep(600)") as process:
        assert process.stderr is not None
        plugin, pid = pids(process.stderr.readline())
        os.kill(pid, signal.SIGKILL)
        status, _, _, _ = outcome(process)
    assert status == -signal.SIGKILL
    wait_until(lambda: gone(plugin, pid))
