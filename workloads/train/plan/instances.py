"""The EC2 instances that a what-if knows: GPUs, network, and the links that no datasheet of the instance prints.

infra/instances has the same numbers for the cluster; this program runs where that is not, and a test compares them.
"""

from dataclasses import dataclass
from typing import Final

from ..errors import UsageError
from .hardware import CARDS, Card
from .machine import Fact, Machine, Mark

EFA_PART: Final = 0.9
"""Of a network card's line rate that a collective reached: 4.2 to 4.8 of 5.0 GB/s between two g6.12xlarge."""
KERNEL_EFFICIENCY: Final = 0.73
"""Part of the GEMM rate in a whole training step: Qwen2.5-1.5B on one H200, FSDP2 with compiled blocks, 49.8k to 53.0k tokens/s, what is
recomputed, copied and fixed taken out."""
STEP_SECONDS: Final = 0.012
MICRO_BATCH_SECONDS: Final = 0.015
CROSS_NODE_LATENCY: Final = 25e-6
SHM_LATENCY: Final = 10e-6
NVLINK_LATENCY: Final = 3e-6
_EC2: Final = "https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One instance type."""

    name: str
    card: Card
    gpus: int
    efa_gbps: float
    """Gb/s per direction, all network cards together."""
    in_node_bandwidth: float
    """Bytes/s per direction of one GPU in collectives inside the node."""
    in_node_source: str
    in_node_latency: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _GemmRate:
    flops: float
    mark: Mark
    source: str


_ON_AN_H200: Final = "80 % of the datasheet, as an H200 reached"
_GEMM: Final = {
    "L4": _GemmRate(
        flops=57e12,
        mark="measured",
        source="8192^2 and 10240^2 bf16 at 72 W, https://github.com/zzc0721/torch-performance-test-data/issues/120",
    ),
    "H200": _GemmRate(flops=790e12, mark="measured", source="8192^2 bf16, torch 2.11"),
}


def _gemm(card: Card) -> _GemmRate:
    return _GEMM.get(card.name) or _GemmRate(flops=0.8 * card.peak_flops, mark="assumed", source=_ON_AN_H200)


_SHM: Final = "NCCL over host memory, range 4 to 12; 8x L20: 6.1, https://github.com/NVIDIA/nccl/issues/1817"


def _pcie(name: str, card: str, gpus: int, gbps: float) -> Instance:
    bandwidth = 8e9 if gpus <= 4 else 6e9
    return Instance(
        name=name,
        card=CARDS[card],
        gpus=gpus,
        efa_gbps=gbps,
        in_node_bandwidth=bandwidth,
        in_node_source=_SHM,
        in_node_latency=SHM_LATENCY,
    )


def _nvlink(name: str, card: str, gbps: float, nvlink: float) -> Instance:
    return Instance(
        name=name,
        card=CARDS[card],
        gpus=8,
        efa_gbps=gbps,
        in_node_bandwidth=0.8 * nvlink,
        in_node_source=f"80 % of NVLink's {nvlink / 1e9:.0f} GB/s per direction",
        in_node_latency=NVLINK_LATENCY,
    )


INSTANCES: Final = {
    one.name: one
    for one in (
        _pcie("g5.12xlarge", "A10G", 4, 40),
        _pcie("g5.48xlarge", "A10G", 8, 100),
        _pcie("g6.12xlarge", "L4", 4, 40),
        _pcie("g6.48xlarge", "L4", 8, 100),
        _pcie("g6e.12xlarge", "L40S", 4, 100),
        _pcie("g6e.24xlarge", "L40S", 4, 200),
        _pcie("g6e.48xlarge", "L40S", 8, 400),
        _nvlink("p4d.24xlarge", "A100 40GB", 400, 300e9),
        _nvlink("p4de.24xlarge", "A100 80GB", 400, 300e9),
        _nvlink("p5.48xlarge", "H100", 3200, 450e9),
        _nvlink("p5e.48xlarge", "H200", 3200, 450e9),
        _nvlink("p5en.48xlarge", "H200", 3200, 450e9),
        _nvlink("p6-b200.48xlarge", "B200", 3200, 900e9),
    )
}
"""Every known instance type by its name."""


def instance(name: str) -> Instance:
    """Return an instance type.

    Raises:
        UsageError: there is no row for it.
    """
    found = INSTANCES.get(name)
    if found is None:
        raise UsageError(
            f"--instance: found {name!r}; allowed: {', '.join(INSTANCES)}; take one of these, or add a row to plan/instances.py"
        )
    return found


def machine_of(kind: Instance, num_nodes: int, *, kernel_efficiency: float = KERNEL_EFFICIENCY) -> Machine:
    """Return so many of an instance, with each number's origin. Nothing is measured here: `probe` does that on the machines themselves."""
    gemm, card = _gemm(kind.card), kind.card
    network = EFA_PART * kind.efa_gbps / 8 * 1e9
    return Machine(
        num_nodes=num_nodes,
        ranks_per_node=kind.gpus,
        gemm_flops=gemm.flops,
        kernel_efficiency=kernel_efficiency,
        peak_flops=card.peak_flops,
        memory_bytes=card.memory_bytes,
        memory_bandwidth=card.memory_bandwidth,
        in_node_bandwidth=kind.in_node_bandwidth,
        cross_node_bandwidth=network,
        in_node_latency=kind.in_node_latency,
        cross_node_latency=CROSS_NODE_LATENCY,
        step_seconds=STEP_SECONDS,
        micro_batch_seconds=MICRO_BATCH_SECONDS,
        facts=(
            Fact(name="GPUs of a node", value=f"{kind.gpus} x {card.name}", mark="datasheet", source=_EC2),
            Fact(
                name="dense bf16 peak",
                value=f"{card.peak_flops / 1e12:.4g} TFLOP/s",
                mark="datasheet",
                source=card.source,
            ),
            Fact(name="GEMM rate", value=f"{gemm.flops / 1e12:.4g} TFLOP/s", mark=gemm.mark, source=gemm.source),
            Fact(
                name="kernel efficiency",
                value=f"{kernel_efficiency:.0%} of the GEMM rate",
                mark="assumed",
                source="as measured on one H200 (Qwen2.5-1.5B, FSDP2, compiled blocks, 49.8k to 53.0k tokens/s)",
            ),
            Fact(
                name="memory of a GPU", value=f"{card.memory_bytes / 1e9:.2f} GB", mark="datasheet", source="nvidia-smi"
            ),
            Fact(
                name="memory bandwidth",
                value=f"{card.memory_bandwidth / 1e9:.4g} GB/s",
                mark="datasheet",
                source=card.source,
            ),
            Fact(
                name="in-node bandwidth",
                value=f"{kind.in_node_bandwidth / 1e9:.4g} GB/s a GPU",
                mark="assumed",
                source=kind.in_node_source,
            ),
            Fact(name="EFA line rate", value=f"{kind.efa_gbps:g} Gb/s a node", mark="datasheet", source=_EC2),
            Fact(
                name="cross-node bandwidth",
                value=f"{network / 1e9:.4g} GB/s a node",
                mark="assumed",
                source=f"{EFA_PART:.0%} of the line rate, as between two g6.12xlarge "
                "(4.2 to 4.8 of 5.0 GB/s, from the published steps/s of AWS's multi-node Ray Train sample for EKS)",
            ),
            Fact(
                name="latency of a hop",
                value=f"{kind.in_node_latency * 1e6:g} us in a node, {CROSS_NODE_LATENCY * 1e6:g} us across",
                mark="assumed",
                source="orders of magnitude of NCCL over shared memory, NVLink and EFA",
            ),
            Fact(
                name="fixed time",
                value=f"{STEP_SECONDS * 1e3:g} ms a step, {MICRO_BATCH_SECONDS * 1e3:g} ms a micro-batch",
                mark="assumed",
                source="27 ms a step of one micro-batch on one H200, split",
            ),
        ),
    )
