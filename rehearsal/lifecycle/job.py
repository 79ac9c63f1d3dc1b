"""What the training job says of itself, read the way the stack's outputs tell a person to read it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rehearsal.errors import RehearsalError
from rehearsal.world.record import World

_TIMEOUT_S = 60


def run_output_command(world: World, command: str) -> str:
    """Run a command out of the stack's outputs as a person would paste it, and return what it prints.

    Raises RehearsalError when it fails, with its own last words.
    """
    path = os.pathsep.join([str(Path(world.kubectl).parent), os.environ.get("PATH", os.defpath)])
    try:
        answer = subprocess.run(
            ["bash", "-c", command],
            env={**os.environ, "PATH": path, "KUBECONFIG": world.kubeconfig},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RehearsalError(f"`{command}`: did not end in {_TIMEOUT_S} s; run it by hand to see why") from None
    if answer.returncode != 0:
        raise RehearsalError(f"`{command}`: exit status {answer.returncode}: {' '.join(answer.stderr.split())[-300:]}")
    return answer.stdout


def job_result(log: str) -> Mapping[str, Any] | None:
    """Return the last `result` event of a driver log, None when the job has written none."""
    found: Mapping[str, Any] | None = None
    for line in log.splitlines():
        text = line[line.find("{") :] if '"event"' in line else ""
        try:
            event: dict[str, Any] = json.loads(text) if text else {}
        except ValueError:
            # A line of somebody else's that looks like one of ours.
            continue
        if event.get("event") == "result":
            found = event
    return found
