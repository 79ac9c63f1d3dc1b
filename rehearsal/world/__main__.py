"""The daemon of a world: `python -m rehearsal.world DIRECTORY STACK REGION OVERRIDES`, started by `rehearsal.world.starting`."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from rehearsal.cluster import find_programs
from rehearsal.containers.operator_binary import find_operator
from rehearsal.errors import RehearsalError
from rehearsal.world.daemon import Daemon
from rehearsal.world.record import Places


def main(root: str, stack: str, region: str, overrides: str) -> int:
    """Keep the world until SIGTERM; 0 when ended so, 2 when it can not be made: the reason is on stderr."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # One line a request would bury what happened.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    where = Places(Path(root))
    lock = os.open(where.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"{where.root}: a world stands there already", file=sys.stderr)
        return 2
    (where.root / "pid").write_text(f"{os.getpid()}\n", encoding="utf-8")
    signal.signal(signal.SIGTERM, _interrupt)
    daemon: Daemon | None = None
    try:
        daemon = Daemon(
            where, find_programs(), find_operator(), stack=stack, region=region, overrides=json.loads(overrides)
        )
        daemon.keep()
    except RehearsalError as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        pass
    finally:
        if daemon is not None:
            daemon.close()
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
