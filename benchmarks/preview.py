"""How long a person waits for a preview: `python -m benchmarks.preview [--runs N] [--json]`.

Each row is a fresh process; files are warm in the page cache and compiled, since one uncounted run comes first.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.rows import Row, row, show

ROOT = Path(__file__).parents[1]
IMPORTS = "import pulumi, infra.stack, settings.stack, workloads.stack"
"""What `__main__.py` imports, and as it does."""
ROWS = {
    "python -m settings Pulumi.dev.yaml": (["-m", "settings", "Pulumi.dev.yaml"], 2.0),
    "settings and imports of the program": (["-c", f"import gc; gc.disable(); {IMPORTS}"], 2.0),
    "preview of rehearsal, policies on": (["-m", "rehearsal", "preview"], 15.0),
}
"""Command of each row, and the seconds that it aims at on 2 cores."""


def measure(name: str, runs: int) -> Row:
    """Run a command `runs` times after one that does not count.

    Raises subprocess.CalledProcessError: the command failed, so its time says nothing.
    """
    arguments, target = ROWS[name]
    seconds: list[float] = []
    for _ in range(runs + 1):
        begun = time.perf_counter()
        subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True, env=_environment())
        seconds.append(time.perf_counter() - begun)
    return row(name, seconds[1:], target)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the rows; return 1 when a median misses its target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.preview", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each command (default 5)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    rows: list[Row] = []
    for name in ROWS:
        with console.status(f"{name}: {options.runs + 1} runs"):
            rows.append(measure(name, options.runs))
    return show(rows, runs=options.runs, json_output=options.json)


def _environment() -> dict[str, str]:
    # Without compiled files every run would compile the SDKs anew.
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


if __name__ == "__main__":
    sys.exit(main())
