"""Run a Python program that ends when its parent does, however that one ended.

`python tether.py FD TARGET [ARGUMENT...]` reads the pipe FD, whose other end the parent holds and never writes to: an
end of file means that the parent is gone. TARGET is a file, or `-m` and a module name. TARGET `-` makes a spare: it
imports the modules that EFA_RAY_TRAIN_PRELOAD names and then becomes the program that one line of JSON on its input
describes: {"target": [...], "cwd": "...", "env": {...}}.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import sys
import threading
from pathlib import Path
from typing import TypedDict

PRELOAD_VARIABLE = "EFA_RAY_TRAIN_PRELOAD"
SPARE = "-"


class Order(TypedDict):
    """What a spare is to become."""

    target: list[str]
    cwd: str
    env: dict[str, str]


def tie(descriptor: int) -> None:
    """End this process as soon as the other end of the pipe `descriptor` is closed."""
    threading.Thread(target=_end_with_parent, args=(descriptor,), daemon=True).start()


def _end_with_parent(descriptor: int) -> None:
    while os.read(descriptor, 1024):
        pass
    os._exit(1)


def main() -> None:
    """Tie this process to its parent, then become the target program."""
    tie(int(sys.argv[1]))
    status: list[int] = []
    # Registered first, so it runs last, after the program's own handlers and threads.
    atexit.register(_skip_teardown, status)
    target = sys.argv[2:]
    if target == [SPARE]:
        target = _await_order()
    # The target must find what it would find if Python had been started with it.
    try:
        if target[0] == "-m":
            sys.argv = target[1:]
            sys.path[0] = str(Path.cwd())
            runpy.run_module(target[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = target
            sys.path[0] = str(Path(target[0]).absolute().parent)
            runpy.run_path(target[0], run_name="__main__")
        status.append(0)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            status.append(end.code or 0)
        raise


def _await_order() -> list[str]:
    """Import what the program will need, then wait for it; return its target."""
    # The modules beside this file must not be taken for third-party ones.
    own = sys.path.pop(0)
    # Nothing of an SDK's modules is ever garbage: looking through them again and again costs a twentieth.
    gc.disable()
    for name in os.environ.get(PRELOAD_VARIABLE, "").split():
        # The program meets the same error again and can say which of its lines wanted the module.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    gc.enable()
    sys.path.insert(0, own)
    order: Order = json.loads(sys.stdin.readline())
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    return order["target"]


def _skip_teardown(status: list[int]) -> None:
    """End at once where the exit status is known: taking apart the modules of a provider SDK costs a second."""
    if status:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status[0] & 0xFF)


if __name__ == "__main__":
    main()
