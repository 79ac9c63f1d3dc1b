"""From the `ray start` that KubeRay wrote into a pod to the one that runs on this machine: the same node, on loopback ports."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rehearsal.containers.pods import PodView
from rehearsal.errors import RehearsalError

LOOPBACK = "127.0.0.1"
# -P: the modules beside the script are none of its own.
_RAY = (sys.executable, "-P", str(Path(__file__).with_name("ray_start.py")))
START_COMMAND = "KUBERAY_GEN_RAY_START_CMD"
"""The variable in which KubeRay hands its command to the container. Source: ray-operator/controllers/ray/utils/constant.go, 1.6.1."""
OBJECT_STORE_BYTES = 256 * 1024**2
"""Ray would take a share of the memory that the machine has, once for each of its nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RayPorts:
    """The ports of one Ray node that somebody asks for; Ray takes free ones for the rest."""

    agent: int
    agent_grpc: int
    runtime_env: int
    metrics: int
    control_store: int = 0
    """Head only."""
    dashboard: int = 0
    """Head only."""


def head_command(generated: str, ports: RayPorts, session: Path) -> list[str]:
    """Return the command of the head, its files below `session`. Raises RehearsalError when `generated` is no `ray start --head`."""
    flags = _flags(generated)
    if flags.pop("head", None) is None:
        raise RehearsalError(f"{START_COMMAND}: found {generated!r} for a head; expected `ray start --head ...`")
    own = {
        "port": str(ports.control_store),
        "dashboard-host": LOOPBACK,
        "dashboard-port": str(ports.dashboard),
    }
    return [*_RAY, "start", "--head", *_arguments({**flags, **own, **_common(ports, session)})]


def worker_command(generated: str, ports: RayPorts, session: Path, head: RayPorts) -> list[str]:
    """Return the command of a worker of the head that listens at `head`, its files below `session`.

    Raises RehearsalError when `generated` is a head's.
    """
    flags = _flags(generated)
    if "head" in flags:
        raise RehearsalError(f"{START_COMMAND}: found {generated!r} for a worker; expected `ray start --address=...`")
    return [
        *_RAY,
        "start",
        *_arguments({**flags, "address": f"{LOOPBACK}:{head.control_store}", **_common(ports, session)}),
    ]


def generated_command(environment: Mapping[str, str], pod: PodView) -> str:
    """Return KubeRay's command out of the container's environment. Raises RehearsalError when there is none."""
    found = environment.get(START_COMMAND)
    if not found:
        raise RehearsalError(f"pod {pod.key}: has no {START_COMMAND}; expected KubeRay 1.6 or newer to have set it")
    return found


def _common(ports: RayPorts, session: Path) -> dict[str, str]:
    return {
        # Ray numbers the sockets of nodes that share a directory, and two that start together take the same number.
        "temp-dir": str(session),
        "node-ip-address": LOOPBACK,
        "dashboard-agent-listen-port": str(ports.agent),
        "dashboard-agent-grpc-port": str(ports.agent_grpc),
        "runtime-env-agent-port": str(ports.runtime_env),
        "metrics-export-port": str(ports.metrics),
        # 0 takes free ones: Ray's own range would meet that of the next node on this machine.
        "min-worker-port": "0",
        "max-worker-port": "0",
        "object-store-memory": str(OBJECT_STORE_BYTES),
        "block": "",
        "disable-usage-stats": "",
    }


def _flags(command: str) -> dict[str, str]:
    words = shlex.split(command)
    if words[:2] != ["ray", "start"]:
        raise RehearsalError(f"{START_COMMAND}: found {command!r}; expected a `ray start` command")
    flags: dict[str, str] = {}
    for word in words[2:]:
        # A switch has no value.
        name, _, value = word.removeprefix("--").partition("=")
        flags[name] = value
    return flags


def _arguments(flags: Mapping[str, str]) -> list[str]:
    return [f"--{name}={value}" if value else f"--{name}" for name, value in flags.items()]
