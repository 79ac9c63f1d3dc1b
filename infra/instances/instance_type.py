"""One instance type: what this program needs to know of it."""

from dataclasses import dataclass
from typing import Final, Literal

InterfaceKind = Literal["interface", "efa", "efa-only"]
"""EC2's InterfaceType: `interface` is ENA alone, `efa` is ENA and EFA, `efa-only` is EFA without an IP address."""

SMALL_INSTANCE_MAX_PODS: Final = 110
LARGE_INSTANCE_MAX_PODS: Final = 250
LARGE_INSTANCE_VCPUS: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A Service Quotas entry of service `ec2`, counted in vCPUs per Region."""

    name: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """Facts of one EC2 instance type. Sources: `infra.instances.SOURCES`."""

    name: str
    vcpus: int
    memory_gib: int
    """Memory as EC2 states it; what Linux and the kubelet see is less (see `kubelet.allocatable`)."""
    gpus: int
    gpu_model: str | None
    """None for a type without GPUs."""
    gpu_memory_gib: int
    """Memory of one GPU, as EC2 states it."""
    efa_interfaces: int
    """Most EFA interfaces that one instance can have; 0 when the type has no EFA."""
    network_cards: int
    efa_cards: tuple[int, ...]
    """Indexes of the network cards that carry EFA."""
    primary_interface: Literal["interface", "efa"]
    """Kind of the interface on card 0, device 0, once EFA is asked for. `interface`: see `interfaces`."""
    network_gbps: float
    """Bandwidth that holds without a time limit, all cards together."""
    nvme_disks: int
    nvme_gb: int
    """Size of one instance store disk, in GB of 10^9 bytes."""
    enis: int
    """Interfaces of the default network card, which is what the VPC CNI counts with."""
    ipv4_per_eni: int
    rdma_read: bool
    """Whether the EFA device has RDMA read. FI_EFA_USE_DEVICE_RDMA=1 aborts the program where it has not."""
    gpudirect_rdma: bool
    """Whether NCCL over EFA reads and writes GPU memory directly (`/GDRDMA` in its channel lines)."""
    capacity_blocks: bool
    """Whether Capacity Blocks for ML are sold for this type."""
    on_demand_quota: Quota
    spot_quota: Quota | None
    """None where the public sources disagree about the quota that counts."""

    @property
    def family(self) -> str:
        """Return the part before the dot, such as `g6e`."""
        return self.name.partition(".")[0]

    @property
    def efa_only(self) -> bool:
        """Tell whether further cards can carry an `efa-only` interface: types of one card have none."""
        return self.efa_interfaces > 1

    @property
    def nvme_total_gb(self) -> int:
        """Return the size of all instance store disks together, in GB of 10^9 bytes."""
        return self.nvme_disks * self.nvme_gb

    @property
    def eni_max_pods(self) -> int:
        """Return the pods that the VPC CNI can address.

        Each interface keeps one address for itself; two pods (CNI and kube-proxy) use the host's.
        """
        return self.enis * (self.ipv4_per_eni - 1) + 2

    @property
    def max_pods(self) -> int:
        """Return `eni_max_pods` under the ceiling of managed node groups: 110 below 30 vCPUs, else 250."""
        ceiling = SMALL_INSTANCE_MAX_PODS if self.vcpus < LARGE_INSTANCE_VCPUS else LARGE_INSTANCE_MAX_PODS
        return min(self.eni_max_pods, ceiling)
