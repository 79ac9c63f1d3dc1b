"""How fast the collectives of training are on a group.

The bus bandwidth is the algorithm's, size over time, times a factor that makes it comparable with the rate of the slowest link, for
any number of ranks n: 2(n-1)/n for all-reduce, (n-1)/n for all-gather and reduce-scatter, where size is that of the whole, gathered tensor.
Source: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch
import torch.distributed as dist

from .collectives import all_gather, all_reduce, reduce_scatter
from .report import Bandwidth

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "all_reduce", "all_gather", "reduce_scatter"
SIZES = (1 << 20, 16 << 20, 128 << 20)
"""Bytes of the whole tensor: a small message, a layer's, and one that fills any link."""
CPU_SIZES = (64 << 10,)
"""gloo's rate tells nothing of a cluster's: enough to see that all of it works."""
ROUNDS = 5


def factor(collective: str, num_ranks: int) -> float:
    """Return bus bandwidth over algorithm bandwidth."""
    return (2 if collective == ALL_REDUCE else 1) * (num_ranks - 1) / num_ranks


def measure(
    groups: Mapping[str, dist.ProcessGroup],
    device: torch.device,
    *,
    sizes: Sequence[int] | None = None,
    rounds: int = ROUNDS,
) -> list[Bandwidth]:
    """Measure all collectives on all groups; every rank calls it with the same names, in the same order.

    Ranks of different groups of a name (the four dp_replicate groups of four GPUs a node) measure at the same time, as training uses them.
    The times are this rank's; a rank that waits for a slow one measures the slow one.
    """
    found: list[Bandwidth] = []
    for name, group in groups.items():
        num_ranks = dist.get_world_size(group)
        if num_ranks == 1:
            continue
        for size in sizes or (SIZES if device.type == "cuda" else CPU_SIZES):
            # All ranks' parts are equal.
            count = max(size // 4 // num_ranks, 1) * num_ranks
            whole = torch.zeros(count, dtype=torch.float32, device=device)
            part = torch.zeros(count // num_ranks, dtype=torch.float32, device=device)
            for collective, do in _collectives(group, whole, part).items():
                seconds = _median(do, group, device, rounds)
                found.append(
                    Bandwidth(
                        group=name,
                        collective=collective,
                        num_ranks=num_ranks,
                        size_bytes=count * 4,
                        seconds=seconds,
                        bus_bytes_per_second=count * 4 / seconds * factor(collective, num_ranks),
                    )
                )
    return found


def _collectives(group: dist.ProcessGroup, whole: torch.Tensor, part: torch.Tensor) -> dict[str, Callable[[], object]]:
    return {
        ALL_REDUCE: lambda: all_reduce(whole, group),
        ALL_GATHER: lambda: all_gather(whole, part, group),
        REDUCE_SCATTER: lambda: reduce_scatter(part, whole, group),
    }


def _median(do: Callable[[], object], group: dist.ProcessGroup, device: torch.device, rounds: int) -> float:
    """Return the median seconds of one call, after one that is not counted: the first makes connections."""
    times: list[float] = []
    ready = torch.zeros(1, device=device)
    for number in range(rounds + 1):
        # No barrier(): which backend of a group carries it is torch's choice.
        all_reduce(ready, group)
        _settled(device)
        started = time.perf_counter()
        do()
        _settled(device)
        if number:
            times.append(time.perf_counter() - started)
    return statistics.median(times)


def _settled(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
