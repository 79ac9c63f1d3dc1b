"""The cluster is not as it should be: plugins that reach no node, an operator that crashes, an API server that is gone."""

from __future__ import annotations

import json
import os
import signal

from rehearsal.drills.stage import DrillError, Stage

_SHORT_WAIT = 1
"""Minutes until a Ray cluster that is not whole fails the update."""


def efa_plugin_missing(stage: Stage) -> str:
    """The EFA plugin's chart has no pod on the GPU nodes, and Helm calls it ready."""
    stage.edit("workloads/chart_values.py", '"values": [spec.gpu_instance_type]', '"values": ["p5.48xlarge"]')
    return _devices_missing(stage, "aws-efa-k8s-device-plugin", "Insufficient vpc.amazonaws.com/efa")


def gpu_label_wrong(stage: Stage) -> str:
    """The GPU plugin asks for a label that no node has."""
    stage.edit(
        "workloads/chart_values.py",
        '_required_node_affinity(labels.GPU_PRESENT, "true")',
        '_required_node_affinity(labels.GPU_PRESENT, "yes")',
    )
    return _devices_missing(stage, "nvidia-device-plugin", "Insufficient nvidia.com/gpu")


def operator_crash(stage: Stage) -> str:
    """The operator is killed while the Ray cluster comes up: its successor goes on."""
    stage.empty()
    command = stage.begin_until_ray_cluster()
    os.kill(stage.pid("operator-"), signal.SIGKILL)
    run = command.end()
    run.must(0)
    restarts = stage.kubectl(
        "get", "pods", "-n", "kuberay-system", "-o", "jsonpath={.items[0].status.containerStatuses[0].restartCount}"
    )
    if restarts != "1":
        raise DrillError(f"operator: restarted {restarts or 'no'} times, expected 1")
    return f"operator restarted once; update and job succeeded in {run.seconds:.0f} s"


def api_server_dead(stage: Stage) -> str:
    """The API server is dead when the stack is destroyed: nothing waits for it."""
    stage.update().must(0)
    os.kill(stage.pid("kube-apiserver"), signal.SIGKILL)
    down = stage.down()
    down.must(0)
    return f"destroyed in {down.document['seconds']:.0f} s without an API server; nothing left"


def ray_cluster_held(stage: Stage) -> str:
    """A finalizer holds the Ray cluster and the operator is gone when the stack is destroyed: nothing waits for either."""
    stage.update().must(0)
    stage.kubectl("scale", "deployment", "kuberay-operator", "-n", "kuberay-system", "--replicas=0")
    held = json.dumps({"metadata": {"finalizers": ["example.com/held"]}})
    cluster = stage.kubectl("get", "raycluster", "-n", "ray-train", "-o", "name").strip()
    if not stage.kubectl("patch", cluster, "-n", "ray-train", "--type=merge", "-p", held):
        raise DrillError(f"{cluster or 'RayCluster'}: took no finalizer; the drill needs one")
    down = stage.down()
    down.must(0)
    return f"destroyed in {down.document['seconds']:.0f} s with the Ray cluster held; nothing left"


def _devices_missing(stage: Stage, plugin: str, shortage: str) -> str:
    stage.empty()
    stage.set(clusterTimeoutMinutes=_SHORT_WAIT)
    run = stage.update("--no-policies")
    run.must(1, f"DaemonSet kube-system/{plugin}: wants no pod on any node", shortage)
    stage.restore()
    again = stage.update()
    again.must(0)
    return (
        f"update failed in {run.seconds:.0f} s naming {plugin}; mended, the next one trained in {again.seconds:.0f} s"
    )
