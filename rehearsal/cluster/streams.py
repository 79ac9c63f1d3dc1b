"""Objects that lead `kubectl logs`, `exec` and `port-forward` of a pod to files, programs and ports of this machine.

kwok reads them while it runs. Each has the name of its pod; `owner` (that pod's metadata) makes it go when the pod goes.
Source of the formats: https://kwok.sigs.k8s.io/docs/user/kwok-streaming/ and https://kwok.sigs.k8s.io/docs/generated/apis/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rehearsal.cluster.bootstrap import KWOK_GROUP, KWOK_VERSION
from rehearsal.cluster.commands import LOOPBACK

API_VERSION: Final = f"{KWOK_GROUP}/{KWOK_VERSION}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod as its streams refer to it; with `uid` its streams are deleted together with it."""

    namespace: str
    name: str
    uid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """What a program that `kubectl exec` starts in a container finds."""

    environment: Mapping[str, str]
    work_dir: Path


def logs(pod: Pod, files: Mapping[str, Path]) -> Mapping[str, object]:
    """Return the Logs object of a pod: container name to its log file, in the format of `container_log`.

    The files need not exist yet; until they do, `kubectl logs` says so.
    """
    return _object(
        "Logs",
        pod,
        {"logs": [{"containers": [container], "logsFile": str(file)} for container, file in files.items()]},
    )


def exec_(pod: Pod, shells: Mapping[str, Shell]) -> Mapping[str, object]:
    """Return the Exec object of a pod: container name to what a program that is started there finds.

    The program's own name is looked up on the PATH that kwok was started with; the PATH in the environment given here is the
    one that the program sees. What `kubectl exec` returns is 0 or 1: kwok loses other statuses.
    """
    return _object(
        "Exec",
        pod,
        {
            "execs": [
                {
                    "containers": [container],
                    "local": {
                        "workDir": str(shell.work_dir),
                        "envs": [{"name": name, "value": value} for name, value in shell.environment.items()],
                    },
                }
                for container, shell in shells.items()
            ]
        },
    )


def port_forward(pod: Pod, ports: Mapping[int, int]) -> Mapping[str, object]:
    """Return the PortForward object of a pod: its ports to the ports of 127.0.0.1 where its processes listen."""
    return _object(
        "PortForward",
        pod,
        {
            "forwards": [
                {"ports": [port], "target": {"address": LOOPBACK, "port": local}} for port, local in ports.items()
            ]
        },
    )


def _object(kind: str, pod: Pod, spec: Mapping[str, object]) -> Mapping[str, object]:
    metadata: dict[str, object] = {"namespace": pod.namespace, "name": pod.name}
    if pod.uid is not None:
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}]
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
