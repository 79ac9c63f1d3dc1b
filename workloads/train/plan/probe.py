"""Measure the machines at the start of a run: GEMM rate, bandwidth inside a node and across, and what the nodes are. Under 30 seconds."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

import torch
import torch.distributed as dist

from ..agreement import first_rank, gathered
from ..errors import UsageError
from ..transport.bandwidth import ALL_GATHER, ALL_REDUCE, factor
from ..transport.collectives import all_gather, all_reduce
from .hardware import Card, card_of
from .hosts import CPU, Host, layout
from .instances import CROSS_NODE_LATENCY, KERNEL_EFFICIENCY, MICRO_BATCH_SECONDS, SHM_LATENCY, STEP_SECONDS
from .machine import Fact, Machine

_CUDA_SECONDS: Final = 2.0
_CPU_SECONDS: Final = 0.2
_WARM_UP: Final = 3
_CGROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


def probe(
    device: torch.device,
    *,
    node: str,
    in_node: dist.ProcessGroup | None,
    cross_node: dist.ProcessGroup | None,
) -> Machine:
    """Measure, and return the same on every rank: the slowest of each counts, as every rank waits for it. All ranks call it at once.

    `in_node` has the ranks of this rank's node, `cross_node` those with its place on every node; None where that is this rank alone. All
    groups of a kind are used at the same time: the ranks of a node share its network card, as in training.

    Raises:
        UsageError: the ranks are not the same number of the same card on every node, or the groups are of other nodes.
        TrainingError: the card has no row in the table.
    """
    started = time.monotonic()
    hosts = gathered(_host(device, node))
    num_nodes, ranks_per_node = layout(hosts)
    _check_groups(num_nodes, ranks_per_node, in_node, cross_node)
    card = None if device.type == CPU else card_of(hosts[0].device_name)
    dist.barrier()
    mine = (
        _gemm_flops(device),
        _copy_bandwidth(device) if card is None else card.memory_bandwidth,
        None if in_node is None else _gather_bandwidth(in_node, device),
        None if cross_node is None else ranks_per_node * _all_reduce_bandwidth(cross_node, device),
    )
    every = gathered(mine)
    gemm, copy = min(one[0] for one in every), min(one[1] for one in every)
    inside = min((one[2] for one in every if one[2] is not None), default=None)
    across = min((one[3] for one in every if one[3] is not None), default=None)
    memory = min(host.memory_bytes for host in hosts)

    def decide() -> Machine:
        return Machine(
            num_nodes=num_nodes,
            ranks_per_node=ranks_per_node,
            gemm_flops=gemm,
            kernel_efficiency=KERNEL_EFFICIENCY,
            peak_flops=card.peak_flops if card else None,
            memory_bytes=memory if card else memory // ranks_per_node,
            memory_bandwidth=copy,
            in_node_bandwidth=inside,
            cross_node_bandwidth=across,
            in_node_latency=SHM_LATENCY,
            cross_node_latency=CROSS_NODE_LATENCY,
            step_seconds=STEP_SECONDS,
            micro_batch_seconds=MICRO_BATCH_SECONDS,
            facts=_facts(hosts, card, gemm, copy, inside, across, time.monotonic() - started),
        )

    return first_rank(decide)


def _check_groups(
    num_nodes: int, ranks_per_node: int, in_node: dist.ProcessGroup | None, cross_node: dist.ProcessGroup | None
) -> None:
    """Refuse groups of other nodes than those that are there. Sizes are alike on all ranks, so all refuse together."""
    inside, across = in_node.size() if in_node else 1, cross_node.size() if cross_node else 1
    if (across, inside) != (num_nodes, ranks_per_node):
        raise UsageError(
            f"nodes: found {num_nodes} with {ranks_per_node} ranks each, while the run is laid out for {across} with {inside}; allowed: "
            "the nodes that are there; correct the number of nodes, or start the ranks on as many"
        )


def _host(device: torch.device, node: str) -> Host:
    if device.type == CPU:
        return Host(node=node, device_name=CPU, memory_bytes=_node_memory())
    memory = cast(int, torch.cuda.get_device_properties(device).total_memory)
    return Host(node=node, device_name=torch.cuda.get_device_name(device), memory_bytes=memory)


def _node_memory() -> int:
    """Return what the machine has, or the container may have of it."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = _CGROUP_LIMIT.read_text().strip() if _CGROUP_LIMIT.is_file() else "max"
    return min(physical, int(limit)) if limit.isdigit() else physical


def _gemm_flops(device: torch.device) -> float:
    """Return FLOP/s of square matrix products: bf16 on a GPU, long enough for its clocks to settle; fp32 on a CPU."""
    size, dtype = (8192, torch.bfloat16) if device.type != CPU else (512, torch.float32)
    left = torch.randn(size, size, device=device, dtype=dtype)
    right = torch.randn(size, size, device=device, dtype=dtype)
    out = torch.empty(size, size, device=device, dtype=dtype)
    seconds = _seconds_of_one(lambda: torch.matmul(left, right, out=out), device, None)
    return 2 * size**3 / seconds


def _copy_bandwidth(device: torch.device) -> float:
    """Return bytes/s of a copy, read and written."""
    source = torch.zeros(16 * 2**20, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / _seconds_of_one(lambda: target.copy_(source), device, None)


def _gather_bandwidth(group: dist.ProcessGroup, device: torch.device) -> float:
    """Return the bus bandwidth of all-gathers as large as a block's weights: (S-1)/S of the result over time."""
    ranks = group.size()
    size = (64 if device.type != CPU else 2) * 2**20 // ranks
    mine = torch.zeros(size, dtype=torch.uint8, device=device)
    every = torch.empty(size * ranks, dtype=torch.uint8, device=device)
    seconds = _seconds_of_one(lambda: all_gather(every, mine, group), device, group)
    return factor(ALL_GATHER, ranks) * every.nbytes / seconds


def _all_reduce_bandwidth(group: dist.ProcessGroup, device: torch.device) -> float:
    """Return the bus bandwidth of all-reduces as large as a shard of a block's gradients: 2(S-1)/S of it over time."""
    tensor = torch.zeros((32 if device.type != CPU else 2) * 2**18, dtype=torch.float32, device=device)
    seconds = _seconds_of_one(lambda: all_reduce(tensor, group), device, group)
    return factor(ALL_REDUCE, group.size()) * tensor.nbytes / seconds


def _seconds_of_one(do: Callable[[], object], device: torch.device, group: dist.ProcessGroup | None) -> float:
    """Return the seconds of one call, from so many that they fill the time; in a group all ranks make the same number of them."""
    for _ in range(_WARM_UP):
        do()
    once = _timed(do, 1, device)
    if group is not None:
        longest = torch.tensor([once], dtype=torch.float64, device=device)
        dist.all_reduce(longest, op=dist.ReduceOp.MAX, group=group)
        once = float(longest.item())
    seconds = _CPU_SECONDS if device.type == CPU else _CUDA_SECONDS
    count = max(3, min(10_000, int(seconds / max(once, 1e-6))))
    return _timed(do, count, device) / count


def _timed(do: Callable[[], object], count: int, device: torch.device) -> float:
    _wait(device)
    started = time.perf_counter()
    for _ in range(count):
        do()
    _wait(device)
    return time.perf_counter() - started


def _wait(device: torch.device) -> None:
    if device.type != CPU:
        torch.cuda.synchronize(device)


def _facts(
    hosts: list[Host],
    card: Card | None,
    gemm: float,
    copy: float,
    inside: float | None,
    across: float | None,
    seconds: float,
) -> tuple[Fact, ...]:
    here = "the slowest rank, at start"
    nodes = ", ".join(dict.fromkeys(host.node for host in hosts))
    facts = [
        Fact(name="ranks", value=f"{len(hosts)} x {hosts[0].device_name}", mark="measured", source=f"nodes {nodes}"),
        Fact(name="GEMM rate", value=f"{gemm / 1e12:.4g} TFLOP/s", mark="measured", source=here),
        Fact(name="kernel efficiency", value=f"{KERNEL_EFFICIENCY:.0%} of it", mark="assumed", source="as on one H200"),
    ]
    if card:
        facts += [
            Fact(
                name="dense bf16 peak",
                value=f"{card.peak_flops / 1e12:.4g} TFLOP/s",
                mark="datasheet",
                source=card.source,
            ),
            Fact(name="memory bandwidth", value=f"{copy / 1e9:.4g} GB/s", mark="datasheet", source=card.source),
        ]
    else:
        facts.append(Fact(name="memory bandwidth", value=f"{copy / 1e9:.4g} GB/s", mark="measured", source=here))
    for name, value, what in (("in-node", inside, "a rank"), ("cross-node", across, "a node")):
        if value is not None:
            facts.append(
                Fact(name=f"{name} bandwidth", value=f"{value / 1e9:.4g} GB/s {what}", mark="measured", source=here)
            )
    facts.append(Fact(name="probe", value=f"{seconds:.1f} s", mark="measured", source="all of the above"))
    return tuple(facts)
