"""Work out what a node offers to pods, before the node exists."""

from dataclasses import dataclass
from typing import Final

from infra.instances.instance_type import InstanceType

MEMORY_RESERVED_BASE_MIB: Final = 255
MEMORY_RESERVED_PER_POD_MIB: Final = 11
EVICTION_HARD_MIB: Final = 100
VM_OVERHEAD_PER_MILLE: Final = 75
"""Memory that the hypervisor and the kernel keep. Karpenter takes off 7.5 % for every type."""

_CPU_RESERVED: Final = ((0, 1_000, 600), (1_000, 2_000, 100), (2_000, 4_000, 50), (4_000, 1_000_000, 25))
"""(from, to, share) in millicores and per 10,000: 6 % of the first core, 1 % of the next, 0.5 % of two, then 0.25 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocatable:
    """What the scheduler can give to pods on one node."""

    cpu_millis: int
    memory_mib: int


def cpu_reserved_millis(vcpus: int) -> int:
    """Return the millicores that nodeadm reserves for the kubelet on AL2023."""
    millis = vcpus * 1_000
    return sum(max(0, min(millis, end) - start) * share // 10_000 for start, end, share in _CPU_RESERVED)


def memory_reserved_mib(max_pods: int) -> int:
    """Return the MiB that nodeadm reserves for the kubelet on AL2023."""
    return MEMORY_RESERVED_BASE_MIB + MEMORY_RESERVED_PER_POD_MIB * max_pods


def allocatable(instance: InstanceType, max_pods: int | None = None) -> Allocatable:
    """Estimate a node's allocatable CPU and memory, on the low side.

    `max_pods` is the number that the memory reservation is made for. By default it is `instance.eni_max_pods`: nodeadm
    reserves for that, even where EKS caps the pods lower. DaemonSets (CNI, kube-proxy, plugins) still take their
    requests out of the result.

    Sources: https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/kubelet/config.go (reservation,
    eviction) and https://karpenter.sh/docs/reference/settings/ (VM_MEMORY_OVERHEAD_PERCENT).

    Raises ValueError when `max_pods` is below 1.
    """
    pods = instance.eni_max_pods if max_pods is None else max_pods
    if pods < 1:
        raise ValueError(f"max_pods: found {pods}; at least 1 is allowed; leave it out for {instance.eni_max_pods}")
    visible_mib = instance.memory_gib * 1_024 * (1_000 - VM_OVERHEAD_PER_MILLE) // 1_000
    return Allocatable(
        cpu_millis=instance.vcpus * 1_000 - cpu_reserved_millis(instance.vcpus),
        memory_mib=visible_mib - memory_reserved_mib(pods) - EVICTION_HARD_MIB,
    )
