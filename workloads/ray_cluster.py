"""The Ray cluster: a head without work on a CPU node, one worker on each GPU node."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

import versions
from infra import labels
from infra.identity import SERVICE_ACCOUNT
from workloads.ray_resource import API_VERSION, TIMEOUT_SECONDS, WAIT_FOR, Manifest, RayResource

NAME = "ray"
WORKER_GROUP = "gpu"
SCRATCH = "/scratch"


@dataclass(frozen=True, slots=True, kw_only=True)
class RayClusterSpec:
    """Sizes and placement of head and workers. Memory in GiB; GPUs and EFA devices are per worker."""

    namespace: str
    image: str
    zone: str
    workers: int
    head_cpu: int
    head_memory_gib: int
    worker_cpu: int
    worker_memory_gib: int
    worker_gpus: int
    worker_efa: int
    worker_ray_start_params: Mapping[str, str]
    worker_environment: Mapping[str, str]
    shared_volume_claim: str
    """PersistentVolumeClaim mounted at /fsx in head and workers; empty for none."""
    timeout_minutes: int
    """Time for nodes to pull the image (8 GB compressed) and workers to register."""


def manifest(spec: RayClusterSpec) -> Manifest:
    """Return the RayCluster of `spec`.

    Requests equal limits in every container (guaranteed pods), and Ray is told of exactly those GPUs: num-gpus is the limit.
    """
    ready = [
        "condition=RayClusterProvisioned",
        "condition=HeadPodReady",
        # The condition holds for ever once all workers were up together; the count says that they are up now.
        f"jsonpath={{.status.readyWorkerReplicas}}={spec.workers}",
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "RayCluster",
        "metadata": {
            "name": NAME,
            "namespace": spec.namespace,
            "annotations": {WAIT_FOR: json.dumps(ready), TIMEOUT_SECONDS: str(spec.timeout_minutes * 60)},
        },
        "spec": {
            "rayVersion": versions.RAY,
            # Without it a changed image or size updates this object and leaves the old pods running.
            "upgradeStrategy": {"type": "Recreate"},
            # The dashboard runs code for whoever reaches it: a token is asked even inside the cluster.
            "authOptions": {"mode": "token"},
            "enableInTreeAutoscaling": False,
            "headGroupSpec": {
                "serviceType": "ClusterIP",
                "enableIngress": False,
                # Nothing is scheduled on the head, so an out-of-memory training process never takes the control store with it.
                "rayStartParams": {"num-cpus": "0", "num-gpus": "0", "dashboard-host": "0.0.0.0"},
                "template": {"spec": _head_pod(spec)},
            },
            "workerGroupSpecs": [
                {
                    "groupName": WORKER_GROUP,
                    "replicas": spec.workers,
                    "minReplicas": spec.workers,
                    "maxReplicas": spec.workers,
                    "numOfHosts": 1,
                    "rayStartParams": {**spec.worker_ray_start_params, "num-gpus": str(spec.worker_gpus)},
                    "template": {"spec": _worker_pod(spec)},
                }
            ],
        },
    }


def _head_pod(spec: RayClusterSpec) -> dict[str, Any]:
    return {
        **_pod(spec),
        "nodeSelector": {labels.ROLE: "system"},
        "containers": [
            _container(
                spec,
                "ray-head",
                {"cpu": str(spec.head_cpu), "memory": f"{spec.head_memory_gib}Gi"},
                # The image's CUDA runtime would otherwise look for a GPU on a node that has none.
                {"NVIDIA_VISIBLE_DEVICES": "void"},
            )
        ],
    }


def _worker_pod(spec: RayClusterSpec) -> dict[str, Any]:
    devices = {"nvidia.com/gpu": str(spec.worker_gpus)}
    if spec.worker_efa:
        devices["vpc.amazonaws.com/efa"] = str(spec.worker_efa)
    return {
        **_pod(spec),
        "nodeSelector": {labels.ROLE: "gpu", labels.ZONE: spec.zone},
        "tolerations": [{"key": labels.GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"}],
        # One worker a node, also where a worker takes only some of the node's GPUs.
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": {"ray.io/cluster": NAME, "ray.io/group": WORKER_GROUP}},
                    }
                ]
            }
        },
        "containers": [
            _container(
                spec,
                "ray-worker",
                {"cpu": str(spec.worker_cpu), "memory": f"{spec.worker_memory_gib}Gi", **devices},
                {**_transport(efa=bool(spec.worker_efa)), **spec.worker_environment},
            )
        ],
    }


def _transport(*, efa: bool) -> dict[str, str]:
    """Return what tells NCCL which network to take.

    FI_EFA_USE_DEVICE_RDMA stays unset: the plugin knows the platform, and the variable aborts the job where the device has no RDMA read.
    NCCL_SOCKET_IFNAME is the pod's interface for NCCL's bootstrap, which is TCP always; without it NCCL may take Pod Identity's link.
    """
    common = {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_DEBUG": "INFO"}
    if efa:
        return {**common, "FI_PROVIDER": "efa", "NCCL_NET_PLUGIN": "ofi"}
    return {**common, "NCCL_NET": "Socket", "NCCL_NET_PLUGIN": "none"}


def _pod(spec: RayClusterSpec) -> dict[str, Any]:
    shared = {"name": "shared", "persistentVolumeClaim": {"claimName": spec.shared_volume_claim}}
    return {
        "serviceAccountName": SERVICE_ACCOUNT,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 120,
        "volumes": [
            {"name": "ray-logs", "emptyDir": {}},
            {"name": "scratch", "emptyDir": {}},
            *([shared] if spec.shared_volume_claim else []),
        ],
    }


def _container(
    spec: RayClusterSpec, name: str, resources: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, Any]:
    # emptyDir lies on the node's NVMe: weights and compiled kernels are read from there, not from the network.
    caches = {"HF_HOME": f"{SCRATCH}/huggingface", "TORCHINDUCTOR_CACHE_DIR": f"{SCRATCH}/inductor"}
    shared = {"name": "shared", "mountPath": "/fsx"}
    return {
        "name": name,
        "image": spec.image,
        "resources": {"requests": dict(resources), "limits": dict(resources)},
        "env": [{"name": key, "value": value} for key, value in {**caches, **environment}.items()],
        "volumeMounts": [
            {"name": "ray-logs", "mountPath": "/tmp/ray"},
            {"name": "scratch", "mountPath": SCRATCH},
            *([shared] if spec.shared_volume_claim else []),
        ],
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", "ray stop"]}}},
        "securityContext": {"allowPrivilegeEscalation": False},
    }


class RayCluster(pulumi.ComponentResource):
    """A RayCluster that stands once every worker is up."""

    resource: RayResource
    name: pulumi.Output[str]

    def __init__(self, name: str, spec: RayClusterSpec, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("efa-ray-train:workloads:RayCluster", name, None, opts)
        self.resource = RayResource(name, manifest(spec), pulumi.ResourceOptions(parent=self))
        self.name = self.resource.metadata.apply(lambda metadata: metadata["name"])
        self.register_outputs({"name": self.name})
