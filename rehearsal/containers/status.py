"""The status that the kubelet would write for a pod, by what its process does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rehearsal.containers.pods import PodView

ADDRESS = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """What is known of the process in place of a pod's main container."""

    started: datetime | None = None
    """None before its first start."""
    running: bool = False
    ready: bool = False
    restarts: int = 0
    exit_status: int | None = None
    """How the last process ended, None when none has."""
    waiting: str = ""
    """Why it is not started yet, empty when nothing holds it up."""


def pod_status(pod: PodView, process: ProcessState) -> Mapping[str, Any]:
    """Return the status of the pod as a merge patch. The other containers of the pod are as the main one is."""
    begun = process.running or process.restarts > 0
    ready = process.running and process.ready
    inits = pod.spec.initContainers or []
    return {
        # With restartPolicy Always, which KubeRay and Deployments use, a pod that has begun to run stays Running.
        "phase": "Running" if begun else "Pending",
        "hostIP": ADDRESS,
        "podIP": ADDRESS,
        "podIPs": [{"ip": ADDRESS}],
        "startTime": _time(process.started),
        "conditions": [
            _condition("PodScheduled", holds=True),
            _condition("Initialized", holds=begun),
            _condition("ContainersReady", holds=ready),
            _condition("Ready", holds=ready),
        ],
        "initContainerStatuses": [
            {
                **_container(init.name, init.image or "", ready=begun, restarts=0),
                "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}
                if begun
                else {"waiting": {"reason": "PodInitializing"}},
            }
            for init in inits
        ],
        "containerStatuses": [
            {
                **_container(container.name, container.image or "", ready=ready, restarts=process.restarts),
                "started": process.running,
                "state": _state(process, initializing=bool(inits)),
                "lastState": _last_state(process),
            }
            for container in pod.spec.containers
        ],
    }


def _container(name: str, image: str, *, ready: bool, restarts: int) -> dict[str, Any]:
    return {"name": name, "image": image, "imageID": image, "ready": ready, "restartCount": restarts}


def _state(process: ProcessState, *, initializing: bool) -> dict[str, Any]:
    if process.running:
        return {"running": {"startedAt": _time(process.started)}}
    if process.restarts:
        return {"waiting": {"reason": "CrashLoopBackOff", "message": process.waiting or "starting again"}}
    reason = "PodInitializing" if initializing else "ContainerCreating"
    return {"waiting": {"reason": reason, "message": process.waiting}}


def _last_state(process: ProcessState) -> dict[str, Any]:
    if process.exit_status is None:
        return {}
    # A process that a signal ended has 128 + its number, as a shell and the container runtime say it.
    code = 128 - process.exit_status if process.exit_status < 0 else process.exit_status
    return {"terminated": {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}}


def _condition(kind: str, *, holds: bool) -> dict[str, str]:
    return {"type": kind, "status": "True" if holds else "False"}


def _time(moment: datetime | None) -> str | None:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None
