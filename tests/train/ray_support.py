"""A Ray of a head without CPUs and two nodes of four GPUs that only Ray counts, all of this machine.

    python -m tests.train.ray_support

prints the address and holds the cluster until it is ended.
"""

# Ray types its functions in part only.
# pyright: reportUnknownMemberType=false

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

PROGRAM = Path(__file__).parents[2] / "workloads" / "train"
OBJECT_STORE_BYTES = 80_000_000
"""The least that Ray takes is 75 MB; nothing is stored there."""
NODES, GPUS = 2, 4


def main() -> None:
    """Hold a cluster. Its files are below RAY_SUPPORT_FILES, a short path: sockets lie there."""
    from ray.cluster_utils import Cluster

    common: dict[str, Any] = {"object_store_memory": OBJECT_STORE_BYTES, "temp_dir": os.environ["RAY_SUPPORT_FILES"]}
    signal.signal(signal.SIGTERM, _end)
    cluster = Cluster(
        initialize_head=True, head_node_args={**common, "num_cpus": 0, "num_gpus": 0, "include_dashboard": False}
    )
    for _ in range(NODES):
        cluster.add_node(object_store_memory=OBJECT_STORE_BYTES, num_cpus=2, num_gpus=GPUS)
    print(json.dumps({"address": cluster.address}), flush=True)
    signal.pause()


def _end(_signal: int, _frame: object) -> None:
    sys.exit(0)


@contextmanager
def ray_cluster() -> Generator[str]:
    """Start a cluster for as long as the block runs; give its address."""
    files = tempfile.mkdtemp(prefix="r-", dir="/tmp")
    holder = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROGRAM.parents[1],
        env={**_environment(), "RAY_SUPPORT_FILES": files},
    )
    try:
        lines = (line for line in cast(IO[str], holder.stdout) if line.startswith('{"address"'))
        yield json.loads(next(lines))["address"]
    finally:
        holder.terminate()
        holder.wait()
        shutil.rmtree(files, ignore_errors=True)


@dataclass
class Job:
    """A driver as Ray's job supervisor starts it: in the unpacked archive, which the runtime environment names."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list[str])

    def until(self, event: str, **values: object) -> dict[str, Any]:
        """Read on to an event with these values and return it; the end of the output is an error."""
        for line in cast(IO[str], self.process.stdout):
            self.lines.append(line.rstrip("\n"))
            found = _event(line)
            if found.get("event") == event and values.items() <= found.items():
                return found
        raise AssertionError(f"no {event} {values} in:\n" + "\n".join(self.lines))

    def end(self) -> int:
        """Read all and return the exit code."""
        self.lines += [line.rstrip("\n") for line in cast(IO[str], self.process.stdout)]
        return self.process.wait()

    def of(self, event: str) -> list[dict[str, Any]]:
        """Return the events of a kind so far."""
        return [found for found in map(_event, self.lines) if found.get("event") == event]


@contextmanager
def job(address: str, folder: Path, arguments: Sequence[str]) -> Generator[Job]:
    """Start the program with these arguments on the cluster's head, for as long as the block runs at most."""
    folder.mkdir()
    shutil.copytree(PROGRAM, folder / "train", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {
        **_environment(),
        "RAY_ADDRESS": address,
        "RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps({"runtime_env": {"working_dir": str(folder)}}),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "train", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=environment,
    )
    try:
        yield Job(process)
    finally:
        process.kill()
        process.wait()


def _event(line: str) -> dict[str, Any]:
    return json.loads(line) if line.startswith('{"event"') else {}


def _environment() -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONUNBUFFERED": ""}


if __name__ == "__main__":
    main()
