"""What the machine can do, measured beside each row: matrix products, and an all-reduce over the links that the row uses."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import time
from collections.abc import Callable
from typing import Final

import torch
import torch.distributed as dist

LINK_BYTES: Final = {"cuda": 256 << 20, "cpu": 1 << 20}


def gemm_flops(device: torch.device) -> float:
    """Return FLOP/s of a square product of random numbers: 8192 wide in bf16 on a GPU; zeros would be faster."""
    size, dtype = (8192, torch.bfloat16) if device.type == "cuda" else (256, torch.float32)
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    out = torch.empty_like(left)
    return 2 * size**3 / _seconds(lambda: torch.mm(left, right, out=out), device, warm_up=20, times=50)


def link_gbps(device: torch.device, group: dist.ProcessGroup | None = None) -> float | None:
    """Return the bus bandwidth of an all-reduce of 256 MiB in Gb/s, the load of the slowest link per direction; None for one rank.

    Source: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
    """
    ranks = dist.get_world_size(group)
    if ranks == 1:
        return None
    data = torch.ones(LINK_BYTES[device.type] // 4, device=device)
    # The first ones make connections and use up what a shaped link may send at once.

    def once() -> None:
        dist.all_reduce(data, group=group)

    seconds = _seconds(once, device, warm_up=3, times=6)
    return 2 * (ranks - 1) / ranks * data.nbytes * 8 / seconds / 1e9


def settle(device: torch.device) -> float:
    """Wait for the device; return the time, in seconds."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _seconds(do: Callable[[], object], device: torch.device, *, warm_up: int, times: int) -> float:
    for _ in range(warm_up):
        do()
    started = settle(device)
    for _ in range(times):
        do()
    return (settle(device) - started) / times
