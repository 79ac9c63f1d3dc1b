"""A running local cluster for tests, and what they make in it."""

from __future__ import annotations

import atexit
import functools
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rehearsal.cluster import LocalCluster, find_programs, start_cluster
from rehearsal.cluster.api import Api
from rehearsal.processes import Supervisor

CORE = "/api/v1"
_NUMBERS = itertools.count(1)
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Shared:
    """The cluster that all tests of this process share, and what a test needs of it."""

    cluster: LocalCluster
    api: Api
    seconds_to_ready: float
    load: float
    """Programs of the whole machine that wanted a processor while it started, its own included."""

    def kubectl(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [str(self.cluster.kubectl), f"--kubeconfig={self.cluster.kubeconfig}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=check, timeout=60)

    def get(self, path: str) -> Any:
        """Return an object or a list of them, None when there is none at that path."""
        answer = self.api.ask(self.cluster.ports.api_server, path)
        if answer.status == 404:
            return None
        assert answer.status == 200, answer.text
        return json.loads(answer.text)

    def create(self, document: Mapping[str, Any], group: str, plural: str) -> Any:
        """Make an object; `group` is the path of its group and version."""
        namespace = document["metadata"].get("namespace")
        path = f"{group}/namespaces/{namespace}/{plural}" if namespace else f"{group}/{plural}"
        answer = self.api.ask(self.cluster.ports.api_server, path, method="POST", body=document)
        assert answer.status == 201, answer.text
        return json.loads(answer.text)

    def delete(self, path: str) -> None:
        answer = self.api.ask(self.cluster.ports.api_server, path, method="DELETE")
        assert answer.status in (200, 202), answer.text

    def node(self, *, gpus: int = 0, labels: Mapping[str, str] | None = None) -> str:
        """Make a node as a node agent does: its capacity is there, kwok does the rest."""
        name = f"node-{next(_NUMBERS)}"
        capacity = {"cpu": "48", "memory": "192Gi", "pods": "110"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
        self.create({"kind": "Node", "metadata": metadata, "status": {"capacity": capacity}}, CORE, "nodes")
        wait_for(lambda: ready(self.get(f"{CORE}/nodes/{name}")), f"{name} is Ready")
        return name

    def namespace(self) -> str:
        name = f"test-{next(_NUMBERS)}"
        self.create({"kind": "Namespace", "metadata": {"name": name}}, CORE, "namespaces")
        return name

    def pod(
        self,
        namespace: str,
        name: str,
        *,
        node: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> Any:
        """Make a pod of one container; with `node` it is bound there, past the scheduler."""
        metadata = {
            "namespace": namespace,
            "name": name,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        }
        bound = {"nodeName": node} if node is not None else {}
        containers = [{"name": "main", "image": "example"}]
        document = {"kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **bound, **(spec or {})}}
        return self.create(document, CORE, "pods")

    def status(self, namespace: str, name: str) -> Any:
        """Return the status of a pod, None when it is gone."""
        pod = self.get(f"{CORE}/namespaces/{namespace}/pods/{name}")
        return pod["status"] if pod is not None else None

    def runs(self, namespace: str, name: str) -> bool:
        status = self.status(namespace, name)
        return status is not None and status.get("phase") == "Running"


@functools.cache
def shared_cluster() -> Shared:
    """Start the cluster of this test process, or return it; it ends with the process."""
    programs = find_programs()
    directory = Path(tempfile.mkdtemp(prefix="efa-ray-train-cluster-"))
    supervisor = Supervisor(directory / "processes")
    # Last registered, first called.
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    atexit.register(supervisor.stop_all, grace=0)
    started = time.monotonic()
    cluster = start_cluster(directory / "cluster", programs, supervisor)
    seconds = time.monotonic() - started
    pki = cluster.files.pki
    return Shared(cluster, Api(pki.authority, pki.certificate("admin"), pki.key("admin")), seconds, os.getloadavg()[0])


def ready(node: Any) -> bool:
    conditions = node["status"].get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def wait_for(condition: Callable[[], bool], what: str, seconds: float = _PATIENCE_S) -> float:
    """Wait until `condition` holds; return how long that took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() < started + seconds, f"did not happen in {seconds:.0f} s: {what}"
        time.sleep(0.05)
    return time.monotonic() - started
