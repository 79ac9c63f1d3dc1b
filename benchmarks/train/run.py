"""Measure a list of points: `python -m benchmarks.train --points default --gpus 1 --json-lines OUT`.

Points run one after the other, forwards in the first round and backwards in the second (ABBA), each in fresh processes. Every result is a
line of OUT at once; started again with the same OUT, what is there is not measured anew. Exit code 0: all was measured; 1: something
failed or was left for want of time; 2: bad usage.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Final

from workloads.train.errors import UsageError

from . import link, points
from .point import Point
from .rows import Line, read, rows, table

_GRACE: Final = 15
"""Seconds in which torchrun ends its ranks."""
ROOT: Final = Path(__file__).parents[2]
FINAL: Final = ("ok", "oom", "timeout")
"""Outcomes that another try would not change."""
_NOISE: Final = re.compile(r"rank-\d+\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How points are measured."""

    gpus: int
    out: Path
    rounds: int
    seconds: float
    timeout: float
    cache: Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the points that are still to be measured, and print a table of all."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.train", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--points", default="default", help=f"{', '.join(points.LISTS)}, or a JSON file of points (default: default)")
    add("--gpus", type=int, default=1, help="ranks; without CUDA they are processes on the CPU (default 1)")
    add("--json-lines", type=Path, required=True, metavar="OUT", help="raw log, appended to; OUT.log has the output")
    add("--rounds", type=int, default=2, help="repetitions of each point, there and back (default 2)")
    add("--seconds", type=float, default=float("inf"), help="start no point that is not expected to end in time")
    add("--timeout", type=float, default=240, help="seconds after which a point is ended (default 240)")
    add("--cache", type=Path, default=Path("/tmp/benchmarks-train"), help="compiled code, kept between runs")
    given = parser.parse_args(arguments)
    # So that what was started is ended too.
    signal.signal(signal.SIGTERM, _stop)
    options = Options(
        gpus=given.gpus,
        out=given.json_lines,
        rounds=given.rounds,
        seconds=given.seconds,
        timeout=given.timeout,
        cache=given.cache,
    )
    try:
        chosen = _checked(options, points.read(given.points))
        done = read(options.out)
    except UsageError as error:
        print("\n".join(f"benchmarks.train: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return error.exit_code
    left = _run(options, chosen, done)
    found = [row for row in rows(read(options.out)) if row.name in {point.name for point in chosen}]
    _print(table(found))
    for name in left:
        print(f"left for want of time: {name}")
    return 1 if left or any(row.outcome in ("failed", "timeout") for row in found) else 0


def _stop(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _checked(options: Options, chosen: list[Point]) -> list[Point]:
    """Return the points. Raises UsageError with all that does not go together."""
    found = [line for point in chosen for line in point.problems(max(1, options.gpus))]
    numbers = {"--gpus": options.gpus, "--rounds": options.rounds, "--timeout": options.timeout}
    found += [f"{name}: found {value:g}; allowed: 1 or more; set it so" for name, value in numbers.items() if value < 1]
    if found:
        raise UsageError("\n".join(found))
    return chosen


def schedule(chosen: Sequence[Point], rounds: int, done: Sequence[Line]) -> Iterator[tuple[int, Point]]:
    """Give each point that is still to be measured, with its round; what does not fit or takes too long is tried once."""
    over = {(line["key"], line["round"]) for line in done if line.get("outcome") in FINAL}
    hopeless = {line["key"] for line in done if line.get("outcome") in ("oom", "timeout")}
    for number in range(rounds):
        for point in chosen if number % 2 == 0 else reversed(chosen):
            if (point.key, number) not in over and point.key not in hopeless:
                yield number, point


def _run(options: Options, chosen: Sequence[Point], done: list[Line]) -> list[str]:
    """Measure; return what was left for want of time."""
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.cache.mkdir(parents=True, exist_ok=True)
    library = link.compiled_shaper(options.cache) if any(point.link_gbps for point in chosen) else None
    started = time.monotonic()
    left: list[str] = []
    for number, point in list(schedule(chosen, options.rounds, done)):
        if any(line["key"] == point.key and line["outcome"] in ("oom", "timeout") for line in done):
            continue
        if time.monotonic() - started + point.expected_seconds > options.seconds:
            left.append(f"{point.name}, round {number + 1}")
            continue
        begun = time.monotonic()
        line = {
            "point": point.model_dump(mode="json"),
            "key": point.key,
            "round": number,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            **_measured(options, point, library),
        }
        line["wall_seconds"] = round(time.monotonic() - begun, 1)
        done.append(line)
        with options.out.open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
        _print(table(rows([line]))[1:])
    return left


def _measured(options: Options, point: Point, library: Path | None) -> dict[str, object]:
    """Run a point in fresh processes and return its outcome with what it measured."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        (folder / "point.json").write_text(point.model_dump_json(), encoding="utf-8")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={options.gpus}"]
        command += ["-m", "benchmarks.train.worker", str(folder / "point.json"), str(folder)]
        log = options.out.with_name(options.out.name + ".log")
        with log.open("a", encoding="utf-8") as output:
            output.write(f"=== {point.name}\n")
            output.flush()
            child = subprocess.Popen(
                command,
                cwd=ROOT,
                env=_environment(options, point, library, folder),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                child.wait(options.timeout)
            except subprocess.TimeoutExpired:
                return {"outcome": "timeout", "said": f"not done after {options.timeout:g} s"}
            finally:
                _end(child)
        return _outcome(folder, child.returncode) | {"shaped": bool(point.link_gbps and library)}


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End torchrun, which ends its ranks; where it does not, they end with it by themselves."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        if child.poll() is not None:
            return
        child.send_signal(how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE)


def _outcome(folder: Path, code: int) -> dict[str, object]:
    result = folder / "result.json"
    if code == 0 and result.exists():
        return {"outcome": "ok", **json.loads(result.read_text(encoding="utf-8"))}
    said = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.iterdir()) if _NOISE.fullmatch(path.name)
    ]
    # A rank whose peer ran out of memory fails too, of something else.
    worst = next((one for one in said if one["outcome"] == "oom"), said[0] if said else None)
    return dict(worst) if worst else {"outcome": "failed", "said": f"exit code {code}, see the log"}


def _environment(options: Options, point: Point, library: Path | None, folder: Path) -> dict[str, str]:
    cache = {
        "TORCHINDUCTOR_CACHE_DIR": str(options.cache / "inductor"),
        "TRITON_CACHE_DIR": str(options.cache / "triton"),
        # The key of this one leaves out which attention kernel comes first.
        "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
        "PYTORCH_ALLOC_CONF": "expandable_segments:True",
    }
    per_node = options.gpus // point.nodes
    shared = link.environment(point.nodes, per_node, point.link_gbps, library, folder / "links")
    return {**os.environ, **cache, **shared}


def _print(lines: Sequence[Sequence[str]]) -> None:
    widths = (22, 14, 17, 5, 8, 7, 8, 5, 10, 10)
    for line in lines:
        print(
            " ".join(
                text.ljust(width) if not index else text.rjust(width)
                for index, (text, width) in enumerate(zip(line, widths, strict=True))
            ),
            flush=True,
        )
