"""Pods as the API server would give them, for tests that need no API server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from lightkube.resources.core_v1 import Pod

from rehearsal.containers.pods import PodView, view

HEAD_COMMAND = (
    "ray start --head  --block  --dashboard-agent-listen-port=52365  --dashboard-host=0.0.0.0  --memory=17179869184  "
    "--metrics-export-port=8080  --num-cpus=0  --num-gpus=0 "
)
WORKER_COMMAND = (
    "ray start  --address=ray-head-svc.ray-train.svc.cluster.local:6379  --block  --dashboard-agent-listen-port=52365  "
    "--memory=171798691840  --metrics-export-port=8080  --num-cpus=40  --num-gpus=4 "
)
"""Both as KubeRay 1.6.1 wrote them for this stack."""


def pod(
    name: str = "ray-head-abcde",
    *,
    labels: dict[str, str] | None = None,
    env: list[dict[str, Any]] | None = None,
    mounts: list[dict[str, str]] | None = None,
    init: bool = False,
    node: str = "ip-10-0-1-1.us-east-2.compute.internal",
    phase: str = "Pending",
    created: float = 0.0,
    deleting: bool = False,
    uid: str = "",
    probe: dict[str, Any] | None = None,
    args: list[str] | None = None,
) -> PodView:
    """Return a pod with one container, bound to a node."""
    container: dict[str, Any] = {
        "name": "main",
        "image": "example/image:1",
        "env": env or [],
        "volumeMounts": mounts or [],
        "args": args or [],
        "ports": [{"name": "http", "containerPort": 8080}],
    }
    if probe is not None:
        container["readinessProbe"] = {"httpGet": probe}
    stamp = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ray-train",
            "uid": uid or f"uid-{name}",
            "labels": labels or {},
            "creationTimestamp": stamp,
        },
        "spec": {"containers": [container], "serviceAccountName": "operator", "nodeName": node},
        "status": {"phase": phase},
    }
    if init:
        document["spec"]["initContainers"] = [{"name": "wait-gcs-ready", "image": "example/image:1"}]
    if deleting:
        document["metadata"]["deletionTimestamp"] = stamp
    return view(cast(Pod, cast(Any, Pod).from_dict(document)))
