"""Start the daemon of a world, wait until the world stands, and stop it again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from rehearsal.engine.state import State
from rehearsal.errors import RehearsalError
from rehearsal.world.record import Places, World, find_world, is_kept, places

_REPOSITORY = Path(__file__).resolve().parents[2]
_READY_S = 120.0
_END_S = 60.0
_PAUSE_S = 0.1
_TOLD_LINES = 5
LOG = "world.log"


def start_world(state: State, *, stack: str, region: str, overrides: Mapping[str, object]) -> World:
    """Start a new world in `state` and return it once it stands. What a world that was killed left there is removed.

    Raises RehearsalError when it does not come to stand, with the last lines of its log.
    """
    where = places(state)
    if is_kept(where):
        raise RehearsalError(f"{where.root}: a world stands there already; take it down with `make rehearse-down`")
    shutil.rmtree(where.root, ignore_errors=True)
    where.root.mkdir(mode=0o700)
    log = where.root / LOG
    # Uncompiled modules cost each of its processes seconds.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "rehearsal.world", str(where.root), stack, region, json.dumps(overrides)],
            cwd=_REPOSITORY,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # It stays when this command has ended, for a look.
            start_new_session=True,
        )
    try:
        return _await(process, state, log)
    except BaseException:
        if process.poll() is None:
            process.terminate()
        process.wait(_END_S)
        raise


def await_world(state: State, *, unused: bool = False) -> World:
    """Return the world of `state` once it stands; with `unused` once its control plane is empty as well.

    Raises RehearsalError when its daemon ends or takes too long.
    """
    deadline = time.monotonic() + _READY_S
    where = places(state)
    while is_kept(where):
        world = find_world(state)
        if world is not None and not (unused and world.used):
            return world
        if time.monotonic() > deadline:
            raise RehearsalError(f"world: does not stand after {_READY_S:.0f} s; {_last_words(where.root / LOG)}")
        time.sleep(_PAUSE_S)
    raise RehearsalError(f"world: has ended; {_last_words(where.root / LOG)}")


def stop_world(state: State) -> bool:
    """End the daemon with all that it keeps and remove its files; return whether there was a world.

    Raises RehearsalError when it does not end.
    """
    where = places(state)
    if is_kept(where):
        _end(_pid(where), where)
    present = where.root.exists()
    for directory in (where.root, where.sessions):
        shutil.rmtree(directory, ignore_errors=True)
    return present


def _await(process: subprocess.Popen[bytes], state: State, log: Path) -> World:
    deadline = time.monotonic() + _READY_S
    while process.poll() is None:
        world = find_world(state)
        if world is not None:
            return world
        if time.monotonic() > deadline:
            raise RehearsalError(f"world: does not stand after {_READY_S:.0f} s; {_last_words(log)}")
        time.sleep(_PAUSE_S)
    raise RehearsalError(f"world: ended with status {process.returncode} before it stood; {_last_words(log)}")


def _last_words(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return f"its log says: {' | '.join(lines[-_TOLD_LINES:]) or 'nothing'}; all of it: {log}"


def _pid(where: Places) -> int:
    return int((where.root / "pid").read_text(encoding="utf-8"))


def _end(pid: int, where: Places) -> None:
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _END_S
    while is_kept(where):
        if time.monotonic() > deadline:
            raise RehearsalError(
                f"world: process {pid} does not end {_END_S:.0f} s after it was asked; kill it: nothing outlives it"
            )
        time.sleep(_PAUSE_S)
