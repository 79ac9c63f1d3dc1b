"""How long a rehearsal takes and what memory it needs: `python -m benchmarks.rehearsal [--runs N] [--scale N] [--json]`.

Each run is a world of its own, from nothing to nothing: `rehearsal up`, then `rehearsal down`, as `make rehearse` and
`make rehearse-down` call them. One uncounted run comes first, so programs are built and modules compiled.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event, Thread

from rich.console import Console

from benchmarks.rows import row, show
from rehearsal.processes.descendants import below, living
from rehearsal.toolchain.places import STATE_VARIABLE

ROOT = Path(__file__).parents[1]
_UP: Mapping[str, str] = {
    "world stands": "world stands",
    "RayCluster provisioned": "RayCluster provisioned",
    "training job ended": "training job ended",
}
"""Label of a row, and its key in what `up --json` prints."""
_TARGETS = {"RayCluster provisioned": 60.0, "up in all": 180.0, "destroy": 45.0, "memory": 6.0}
_TARGET_AT_SCALE = 180.0
"""Of a provisioned RayCluster, where there are more GPU nodes than Ray workers that run."""
_PAUSE_S = 1.0


class Memory:
    """The most memory, in GiB, that the processes under this one had at one time (Linux: /proc)."""

    def __init__(self) -> None:
        self.resident = self.proportional = 0.0
        self._ended = Event()
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_PAUSE_S):
            amounts = [_memory(pid) for pid in below([os.getpid()], living())]
            self.resident = max(self.resident, sum(rss for rss, _ in amounts) / 2**20)
            self.proportional = max(self.proportional, sum(pss for _, pss in amounts) / 2**20)


def _memory(pid: int) -> tuple[int, int]:
    """Return resident and proportional set size of a process in KiB; 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0, 0
    sizes = {key: int(value.split()[0]) for key, _, value in (line.partition(":") for line in lines[1:])}
    return sizes.get("Rss", 0), sizes.get("Pss", 0)


def one_life(scale: int | None) -> dict[str, float]:
    """Bring a stack up and take it down; return seconds and GiB by name.

    Raises subprocess.CalledProcessError: a command failed, so its times say nothing.
    """
    with tempfile.TemporaryDirectory(prefix="efa-ray-train-benchmark-") as directory:
        state = Path(directory).resolve() / "state"
        memory = Memory()
        begun = time.monotonic()
        try:
            up = _run(state, "up", *([] if scale is None else ["--scale", str(scale)]))
            whole = time.monotonic() - begun
        finally:
            memory.end()
            begun = time.monotonic()
            _run(state, "down")
        found = {name: float(up["seconds"][key]) for name, key in _UP.items()}
        return {
            **found,
            "up in all": whole,
            "destroy": time.monotonic() - begun,
            "memory": memory.proportional,
            "memory, shared pages counted in each process": memory.resident,
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the rows; return 1 when a median misses its target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rehearsal", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="counted runs (default 3)")
    parser.add_argument("--scale", type=int, help="GPU nodes (default: as the stack has them)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    lives: list[dict[str, float]] = []
    console = Console(stderr=True)
    for number in range(options.runs + 1):
        with console.status(f"run {number} of {options.runs}"):
            lives.append(one_life(options.scale))
    targets = _TARGETS if options.scale is None else {**_TARGETS, "RayCluster provisioned": _TARGET_AT_SCALE}
    if options.scale is not None:
        del targets["up in all"]
    counted = lives[1:]
    rows = [
        row(name, [life[name] for life in counted], targets.get(name), "GiB" if "memory" in name else "s")
        for name in counted[0]
    ]
    return show(rows, runs=options.runs, json_output=options.json)


def _run(state: Path, verb: str, *arguments: str) -> Mapping[str, Mapping[str, float]]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-m", "rehearsal", verb, "--json", *arguments],
        cwd=ROOT,
        env={**environment, STATE_VARIABLE: str(state)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        done.check_returncode()
    return json.loads(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
