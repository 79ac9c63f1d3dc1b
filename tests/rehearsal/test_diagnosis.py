"""Why a stack did not come up, as its cluster tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from lightkube.models.core_v1 import Node as NodeModel
from lightkube.models.core_v1 import Pod as PodModel
from lightkube.resources.apps_v1 import DaemonSet
from lightkube.resources.core_v1 import Node, Pod

from rehearsal.kubernetes import Kubernetes, Release
from rehearsal.lifecycle.diagnosis import diagnose

GPU_LABELS = {"nvidia.com/gpu.present": "true", "node.kubernetes.io/instance-type": "g6.12xlarge"}
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}


class Cluster(Kubernetes):
    """A cluster that holds what it is given."""

    def __init__(
        self,
        nodes: Sequence[NodeModel] = (),
        pods: Sequence[PodModel] = (),
        daemon_sets: Sequence[DaemonSet] = (),
        releases: Sequence[Release] = (),
    ) -> None:
        self._found = (nodes, pods, daemon_sets, releases)

    def nodes(self) -> list[Node]:
        return cast(list[Node], list(self._found[0]))

    def pods(self) -> list[Pod]:
        return cast(list[Pod], list(self._found[1]))

    def daemon_sets(self) -> list[DaemonSet]:
        return list(self._found[2])

    def releases(self) -> list[Release]:
        return list(self._found[3])


def node(name: str, labels: dict[str, str], *taints: dict[str, str]) -> NodeModel:
    document = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)}}
    return cast(Any, NodeModel).from_dict(document)


def plugin(desired: int, **pod_spec: object) -> DaemonSet:
    return cast(Any, DaemonSet).from_dict(
        {
            "metadata": {"namespace": "kube-system", "name": "nvidia-device-plugin"},
            "spec": {
                "selector": {"matchLabels": {"app": "plugin"}},
                "template": {"spec": {"containers": [{"name": "plugin"}], **pod_spec}},
            },
            "status": {
                "currentNumberScheduled": desired,
                "desiredNumberScheduled": desired,
                "numberMisscheduled": 0,
                "numberReady": desired,
            },
        }
    )


def pod(name: str, **status: object) -> PodModel:
    return cast(Any, PodModel).from_dict({"metadata": {"namespace": "ray-train", "name": name}, "status": status})


def unplaced(name: str, message: str) -> PodModel:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return pod(name, phase="Pending", conditions=[condition])


GPU_NODE = node("gpu-1", GPU_LABELS, GPU_TAINT)
TOLERATED = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}


def diagnosed(cluster: Cluster) -> list[str]:
    return diagnose(cluster, known_releases={("kube-system", "known")})


def test_a_cluster_that_is_whole_has_no_cause() -> None:
    placed = pod("head", phase="Running", conditions=[{"type": "PodScheduled", "status": "True"}])
    assert diagnosed(Cluster([GPU_NODE], [placed], [plugin(1, **TOLERATED)])) == []


def test_no_node_at_all() -> None:
    assert diagnosed(Cluster()) == ["nodes: none has joined; see the node groups' health in the error above"]


def test_a_plugin_that_misses_its_nodes_says_for_each_node_why() -> None:
    wrong_label = plugin(0, nodeSelector={"nvidia.com/gpu.present": "yes"}, **TOLERATED)
    (line,) = diagnosed(Cluster([GPU_NODE, node("system-1", {})], [], [wrong_label]))
    assert line.startswith("DaemonSet kube-system/nvidia-device-plugin: wants no pod on any node")
    assert "gpu-1: nodeSelector nvidia.com/gpu.present=yes, node has 'true'" in line
    assert "system-1: nodeSelector nvidia.com/gpu.present=yes, node has no such label" in line

    (line,) = diagnosed(Cluster([GPU_NODE], [], [plugin(0)]))
    assert "gpu-1: taint nvidia.com/gpu=true:NoSchedule is not tolerated" in line


def test_pods_that_wait_for_the_same_thing_are_one_line_after_its_cause() -> None:
    shortage = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    pods = [
        unplaced("worker-b", shortage),
        unplaced("worker-a", shortage),
        unplaced("head", "0/2: 2 Insufficient cpu."),
    ]
    lines = diagnosed(Cluster([GPU_NODE], pods, [plugin(0)]))
    assert lines[0].startswith("DaemonSet ")
    assert lines[1:] == [
        f"pods not placed: ray-train/worker-a, ray-train/worker-b: {shortage}",
        "pods not placed: ray-train/head: 0/2: 2 Insufficient cpu.",
    ]


def test_a_container_that_ends_again_and_again_is_named_with_the_way_to_its_words() -> None:
    def status(waiting: str, ended: bool) -> dict[str, object]:
        terminated = {"terminated": {"exitCode": 3}} if ended else {}
        return {
            "name": "ray-head",
            "image": "ray",
            "imageID": "ray",
            "ready": False,
            "restartCount": 4,
            "state": {"waiting": {"reason": waiting}},
            "lastState": terminated,
        }

    crashing = pod("head", phase="Running", containerStatuses=[status("CrashLoopBackOff", True)])
    starting = pod("worker", phase="Pending", containerStatuses=[status("ContainerCreating", False)])
    (line,) = diagnosed(Cluster([GPU_NODE], [crashing, starting]))
    assert line.startswith("pod ray-train/head: container ray-head has ended 4 times with exit code 3; ")
    assert "`kubectl logs --namespace ray-train head`" in line


def test_a_release_that_only_the_cluster_has_is_named_with_the_way_out() -> None:
    releases = [
        Release(namespace="kube-system", name="known", status="pending-upgrade"),
        Release(namespace="kuberay-system", name="known", status="pending-install"),
    ]
    (line,) = diagnosed(Cluster([GPU_NODE], releases=releases))
    assert line.startswith(
        "release kuberay-system/known: is in the cluster (pending-install) and not in the stack's state"
    )
    assert "`helm uninstall known --namespace kuberay-system`" in line
