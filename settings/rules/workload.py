"""Head and workers fit their nodes, and what is asked is what Ray is told."""

import re
from collections.abc import Iterator

from infra.instances import INSTANCE_TYPES, Allocatable, InstanceType, allocatable
from settings.fields import Settings
from settings.problems import Problem
from settings.rules.capacity import gpu_type
from settings.rules.rule import reads

IMAGE = re.compile(r"[\w.-]+(:\d+)?(/[\w.-]+)+(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?")
PRINCIPAL = re.compile(r"arn:aws[\w-]*:iam::\d{12}:(role|user)/[\w+=,.@/-]+")
ADD_ONS = (
    "vpc-cni",
    "kube-proxy",
    "coredns",
    "eks-pod-identity-agent",
    "eks-node-monitoring-agent",
    "aws-fsx-csi-driver",
)
GPU_NODE_DAEMONS = Allocatable(cpu_millis=500, memory_mib=512)
"""Room for the pods that run beside a worker: vpc-cni, kube-proxy, the agents and both device plugins."""
SYSTEM_NODE_PODS = Allocatable(cpu_millis=1000, memory_mib=2048)
"""Room for the pods that run beside the head: the same daemons, two coredns pods and the KubeRay operator."""


@reads("worker_gpus", "gpu_instance_type")
def worker_gpus(settings: Settings) -> Iterator[Problem]:
    """A worker asks for no more GPUs than its node has."""
    type_ = gpu_type(settings)
    if type_ and settings.ray.worker_gpus > type_.gpus:
        yield Problem(
            key="workerGpus",
            found=f"{settings.ray.worker_gpus}, with gpuInstanceType {type_.name}",
            allowed=f"1 to {type_.gpus}, or 0 for every one",
            fix="pulumi config set workerGpus 0",
        )


@reads("worker_ray_start_params", "worker_gpus", "gpu_instance_type")
def num_gpus(settings: Settings) -> Iterator[Problem]:
    """Ray is told of exactly the GPUs that the pod gets."""
    type_ = gpu_type(settings)
    told = settings.ray.worker_ray_start_params.get("num-gpus")
    gpus = settings.ray.worker_gpus or (type_.gpus if type_ else 0)
    if type_ and told is not None and told != str(gpus):
        yield Problem(
            key="workerRayStartParams",
            found=f"num-gpus {told!r}",
            allowed=f"'{gpus}', what the worker requests: Ray would schedule on GPUs that are not there, or leave some idle",
            fix="remove num-gpus; it follows workerGpus",
        )


@reads("worker_cpu", "worker_memory_gib", "gpu_instance_type")
def worker_fits(settings: Settings) -> Iterator[Problem]:
    """A worker fits a GPU node beside the daemons."""
    type_ = gpu_type(settings)
    if type_:
        yield from _fits(type_, "worker", settings.ray.worker_cpu, settings.ray.worker_memory_gib, GPU_NODE_DAEMONS)


@reads("head_cpu", "head_memory_gib", "system_instance_type")
def head_fits(settings: Settings) -> Iterator[Problem]:
    """The head fits a CPU node beside the operator."""
    type_ = INSTANCE_TYPES.get(settings.cluster.system_instance_type)
    if type_:
        yield from _fits(type_, "head", settings.ray.head_cpu, settings.ray.head_memory_gib, SYSTEM_NODE_PODS)


def _fits(type_: InstanceType, who: str, cpu: int, memory_gib: int, taken: Allocatable) -> Iterator[Problem]:
    room = allocatable(type_)
    cpu_left, memory_left = (room.cpu_millis - taken.cpu_millis) // 1000, (room.memory_mib - taken.memory_mib) // 1024
    for key, found, most, unit in (
        (f"{who}Cpu", cpu, cpu_left, "CPUs"),
        (f"{who}MemoryGib", memory_gib, memory_left, "GiB"),
    ):
        if found > most:
            yield Problem(
                key=key,
                found=f"{found}, on {type_.name}",
                allowed=f"up to {max(most, 0)} {unit}, what the kubelet leaves less the pods beside it",
                fix=f"lower it, or choose a larger node than {type_.name}",
            )


@reads("worker_environment", "efa")
def worker_environment(settings: Settings) -> Iterator[Problem]:
    """No variable turns off what the stack turns on."""
    for name, value in settings.ray.worker_environment.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            yield Problem(
                key="workerEnvironment",
                found=f"name {name!r}",
                allowed="letters, digits and _, not a digit first",
                fix="rename it",
            )
        if settings.gpu.efa and (name, value) in (
            ("FI_PROVIDER", "tcp"),
            ("NCCL_NET", "Socket"),
            ("NCCL_NET_PLUGIN", "none"),
        ):
            yield Problem(
                key="workerEnvironment",
                found=f"{name}={value}, with efa true",
                allowed="nothing that sends NCCL over TCP",
                fix="remove it, or set efa to false to train over TCP",
            )


@reads("image")
def image_form(settings: Settings) -> Iterator[Problem]:
    """The image is a reference that a node can pull."""
    if not IMAGE.fullmatch(settings.ray.image) or settings.ray.image.endswith(":latest"):
        yield Problem(
            key="image",
            found=repr(settings.ray.image),
            allowed="REGISTRY/REPOSITORY@sha256:<64 hex digits>, or with a tag other than latest",
            fix="copy the digest from the registry, or remove image for AWS's Ray training image",
        )


@reads("cluster_admins", "addon_versions")
def cluster_names(settings: Settings) -> Iterator[Problem]:
    """Administrators are IAM principals; add-on versions name add-ons of this stack."""
    for arn in settings.cluster.cluster_admins:
        if not PRINCIPAL.fullmatch(arn):
            yield Problem(
                key="clusterAdmins",
                found=repr(arn),
                allowed="arn:aws:iam::ACCOUNT:role/NAME or .../user/NAME",
                fix="use the principal's ARN",
            )
    for name in settings.cluster.addon_versions:
        if name not in ADD_ONS:
            yield Problem(
                key="addonVersions", found=repr(name), allowed=", ".join(ADD_ONS), fix="remove it or correct the name"
            )


RULES = (worker_gpus, num_gpus, worker_fits, head_fits, worker_environment, image_form, cluster_names)
