"""The instance types that this program knows, one row each, with the source of every column."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from infra.instances.instance_type import InstanceType, Quota


class Source(NamedTuple):
    """Where a fact was read, and when."""

    url: str
    as_read: str


_KARPENTER: Final = "https://github.com/aws/karpenter-provider-aws/blob/1d927085dd81a9df9301e613f371dac5b4d16bfe"
_EC2_GUIDE: Final = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide"
_SPECIFICATIONS: Final = Source("https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html", "2026-11")
_GENERATED: Final = Source(f"{_KARPENTER}/website/content/en/docs/reference/instance-types.md", "2026-11")
_EFA: Final = Source(f"{_EC2_GUIDE}/efa.html", "2026-11")
_LAYOUT: Final = Source(f"{_EC2_GUIDE}/efa-acc-inst-types.html", "2026-11")
_VPC_LIMITS: Final = Source(f"{_KARPENTER}/pkg/providers/instancetype/zz_generated.vpclimits.go", "2026-11")

SOURCES: Final[Mapping[str, tuple[Source, ...]]] = MappingProxyType(
    {
        # Karpenter's page is generated from DescribeInstanceTypes; it agrees with EC2's own page wherever both have
        # the type.
        "vcpus": (_SPECIFICATIONS, _GENERATED),
        "memory_gib": (_SPECIFICATIONS, _GENERATED),
        "gpus": (_SPECIFICATIONS, _GENERATED),
        "gpu_model": (_SPECIFICATIONS, _GENERATED),
        # EC2 rounds to whole GiB and DescribeInstanceTypes gives MiB: L4 and A10G 22888 (22.35 GiB, printed as 22),
        # L40S 45776 (44.7, printed as 44), H200 144384 (141), B200 183359 (179). The printed, smaller number stands
        # here.
        "gpu_memory_gib": (_SPECIFICATIONS, _GENERATED),
        "efa_interfaces": (_GENERATED, _EFA),
        "network_cards": (_SPECIFICATIONS, _VPC_LIMITS),
        "efa_cards": (_LAYOUT,),
        "primary_interface": (_LAYOUT,),
        # The baseline of types that burst (m*, *.xlarge); EC2's page prints both numbers.
        "network_gbps": (
            _SPECIFICATIONS,
            Source(f"{_KARPENTER}/pkg/providers/instancetype/zz_generated.bandwidth.go", "2026-11"),
        ),
        "nvme_disks": (_SPECIFICATIONS,),
        "nvme_gb": (_SPECIFICATIONS,),
        # DescribeInstanceTypes' interface total counts every card (p5.48xlarge: 64); nodeadm counts the default card
        # (2).
        "enis": (
            Source(
                "https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/kubelet/instance-info.jsonl",
                "2026-11",
            ),
            _VPC_LIMITS,
        ),
        "ipv4_per_eni": (_VPC_LIMITS, _SPECIFICATIONS),
        "max_pods": (
            Source("https://docs.aws.amazon.com/eks/latest/userguide/cni-increase-ip-addresses.html", "2026-11"),
        ),
        "rdma_read": (_EFA,),
        # The NCCL plugin's platform table says where it insists on GPUDirect RDMA: p4d, p4de, p5, p5e, p5en, p6. It
        # says that g5.48xlarge and p5.4xlarge do without, and has no row for g6 and g6e: those stand as False, the
        # safe side.
        "gpudirect_rdma": (Source("https://github.com/aws/aws-ofi-nccl/blob/master/src/platform-aws.cpp", "2026-11"),),
        "capacity_blocks": (Source(f"{_EC2_GUIDE}/ec2-capacity-blocks.html", "2026-11"),),
        "on_demand_quota": (Source("https://docs.aws.amazon.com/general/latest/gr/ec2-service.html", "2026-11"),),
        # P6: one public table counts it under "All P5 Spot Instance Requests", another under the P4, P3 and P2 one.
        "spot_quota": (Source("https://docs.aws.amazon.com/general/latest/gr/ec2-service.html", "2026-11"),),
    }
)

_G_ON_DEMAND: Final = Quota(name="Running On-Demand G and VT instances", code="L-DB2E81BA")
_G_SPOT: Final = Quota(name="All G and VT Spot Instance Requests", code="L-3819A6DF")
_P_ON_DEMAND: Final = Quota(name="Running On-Demand P instances", code="L-417A185B")
_P4_SPOT: Final = Quota(name="All P4, P3 and P2 Spot Instance Requests", code="L-7212CCBC")
_P5_SPOT: Final = Quota(name="All P5 Spot Instance Requests", code="L-C4BD4855")
_STANDARD: Final = Quota(name="Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", code="L-1216C47A")
_STANDARD_SPOT: Final = Quota(name="All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", code="L-34B43A08")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """What all sizes of a family share."""

    gpu_model: str | None = None
    gpu_memory_gib: int = 0
    rdma_read: bool = False
    gpudirect_rdma: bool = False
    capacity_blocks: bool = False
    primary_interface: Literal["interface", "efa"] = "efa"
    first_efa_card: int = 0
    on_demand: Quota
    spot: Quota | None


_CPU: Final = _Family(on_demand=_STANDARD, spot=_STANDARD_SPOT)
_G5: Final = _Family(gpu_model="A10G", gpu_memory_gib=22, on_demand=_G_ON_DEMAND, spot=_G_SPOT)
_G6: Final = _Family(gpu_model="L4", gpu_memory_gib=22, rdma_read=True, on_demand=_G_ON_DEMAND, spot=_G_SPOT)
_G6E: Final = _Family(gpu_model="L40S", gpu_memory_gib=44, rdma_read=True, on_demand=_G_ON_DEMAND, spot=_G_SPOT)


def _p_family(
    model: str,
    memory_gib: int,
    spot: Quota | None,
    *,
    primary_interface: Literal["interface", "efa"] = "efa",
    first_efa_card: int = 0,
) -> _Family:
    return _Family(
        gpu_model=model,
        gpu_memory_gib=memory_gib,
        rdma_read=True,
        gpudirect_rdma=True,
        capacity_blocks=True,
        primary_interface=primary_interface,
        first_efa_card=first_efa_card,
        on_demand=_P_ON_DEMAND,
        spot=spot,
    )


_P4D: Final = _p_family("A100", 40, _P4_SPOT)
_P4DE: Final = _p_family("A100", 80, _P4_SPOT)
_P5: Final = _p_family("H100", 80, _P5_SPOT)
_P5E: Final = _p_family("H200", 141, _P5_SPOT)
# The guide describes P6 with an ENA interface first and efa-only interfaces beside it, and no other way.
_P6_B200: Final = _p_family("B200", 179, None, primary_interface="interface")
# Card 0 of P6-B300 has no EFA.
_P6_B300: Final = _p_family("B300", 268, None, primary_interface="interface", first_efa_card=1)

_Row = tuple[_Family, str, int, int, int, float, int, int, int, int, int, int]

# fmt: off
_ROWS: Final[tuple[_Row, ...]] = (
    # family, name,              vCPU, GiB,  GPUs, Gb/s, disks, GB each, EFA, cards, ENIs of card 0, IPv4 per ENI
    (_CPU, "m6i.2xlarge",           8,   32, 0,    3.125, 0,    0,  0,  1,  4, 15),
    (_CPU, "m7a.2xlarge",           8,   32, 0,    3.125, 0,    0,  0,  1,  4, 15),
    (_CPU, "m7i.xlarge",            4,   16, 0,    1.562, 0,    0,  0,  1,  4, 15),
    (_CPU, "m7i.2xlarge",           8,   32, 0,    3.125, 0,    0,  0,  1,  4, 15),
    (_CPU, "m7i.4xlarge",          16,   64, 0,    6.25,  0,    0,  0,  1,  8, 30),
    (_G5, "g5.xlarge",              4,   16, 1,    2.5,   1,  250,  0,  1,  4, 15),
    (_G5, "g5.8xlarge",            32,  128, 1,   25.0,   1,  900,  1,  1,  8, 30),
    (_G5, "g5.12xlarge",           48,  192, 4,   40.0,   1, 3800,  1,  1, 15, 50),
    (_G5, "g5.16xlarge",           64,  256, 1,   25.0,   1, 1900,  1,  1,  8, 30),
    (_G5, "g5.24xlarge",           96,  384, 4,   50.0,   1, 3800,  1,  1, 15, 50),
    (_G5, "g5.48xlarge",          192,  768, 8,  100.0,   2, 3800,  1,  1,  7, 50),
    (_G6, "g6.xlarge",              4,   16, 1,    2.5,   1,  250,  0,  1,  4, 15),
    (_G6, "g6.8xlarge",            32,  128, 1,   25.0,   2,  450,  1,  1,  8, 30),
    (_G6, "g6.12xlarge",           48,  192, 4,   40.0,   4,  940,  1,  1,  8, 30),
    (_G6, "g6.16xlarge",           64,  256, 1,   25.0,   2,  940,  1,  1, 15, 50),
    (_G6, "g6.24xlarge",           96,  384, 4,   50.0,   4,  940,  1,  1, 15, 50),
    (_G6, "g6.48xlarge",          192,  768, 8,  100.0,   8,  940,  1,  1, 15, 50),
    (_G6E, "g6e.xlarge",            4,   32, 1,    2.5,   1,  250,  0,  1,  4, 15),
    (_G6E, "g6e.8xlarge",          32,  256, 1,   25.0,   2,  450,  1,  1,  8, 30),
    (_G6E, "g6e.12xlarge",         48,  384, 4,  100.0,   2, 1900,  1,  1, 10, 30),
    (_G6E, "g6e.16xlarge",         64,  512, 1,   35.0,   2,  950,  1,  1, 15, 50),
    (_G6E, "g6e.24xlarge",         96,  768, 4,  200.0,   2, 1900,  2,  2, 10, 50),
    (_G6E, "g6e.48xlarge",        192, 1536, 8,  400.0,   4, 1900,  4,  4, 10, 50),
    (_P4D, "p4d.24xlarge",         96, 1152, 8,  400.0,   8, 1000,  4,  4, 15, 50),
    (_P4DE, "p4de.24xlarge",       96, 1152, 8,  400.0,   8, 1000,  4,  4, 15, 50),
    (_P5, "p5.48xlarge",          192, 2048, 8, 3200.0,   8, 3800, 32, 32,  2, 50),
    (_P5E, "p5e.48xlarge",        192, 2048, 8, 3200.0,   8, 3800, 32, 32,  2, 50),
    (_P5E, "p5en.48xlarge",       192, 2048, 8, 3200.0,   8, 3800, 16, 16,  4, 50),
    (_P6_B200, "p6-b200.48xlarge", 192, 2048, 8, 3200.0,  8, 3800,  8,  8,  4, 50),
    (_P6_B300, "p6-b300.48xlarge", 192, 4096, 8, 6400.0,  8, 3800, 16, 17,  4, 50),
)
# fmt: on


def _instance_type(row: _Row) -> InstanceType:
    family, name, vcpus, memory_gib, gpus, gbps, nvme_disks, nvme_gb, efa, cards, enis, ipv4_per_eni = row
    return InstanceType(
        name=name,
        vcpus=vcpus,
        memory_gib=memory_gib,
        gpus=gpus,
        gpu_model=family.gpu_model,
        gpu_memory_gib=family.gpu_memory_gib,
        efa_interfaces=efa,
        network_cards=cards,
        efa_cards=tuple(range(family.first_efa_card, family.first_efa_card + efa)),
        primary_interface=family.primary_interface,
        network_gbps=gbps,
        nvme_disks=nvme_disks,
        nvme_gb=nvme_gb,
        enis=enis,
        ipv4_per_eni=ipv4_per_eni,
        # A size without EFA has neither, whatever its family can do.
        rdma_read=family.rdma_read and efa > 0,
        gpudirect_rdma=family.gpudirect_rdma and efa > 0,
        capacity_blocks=family.capacity_blocks,
        on_demand_quota=family.on_demand,
        spot_quota=family.spot,
    )


INSTANCE_TYPES: Final[Mapping[str, InstanceType]] = MappingProxyType({row[1]: _instance_type(row) for row in _ROWS})
"""Every known type by its name, CPU families first, then GPU families by age and size."""
