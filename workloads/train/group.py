"""The process group of a run, as each rank joins it, under Ray and under torchrun alike."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

from datetime import timedelta
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from .config import Config
from .device import CUDA
from .transport.evidence import RankLog
from .transport.gate import prepare

if TYPE_CHECKING:
    from torch.distributed import Store  # pyright: ignore[reportPrivateImportUsage] -- a documented name

COLLECTIVE_SECONDS = 300
"""Time for a collective, and with it for the slowest rank's part of a checkpoint."""


def join(
    config: Config, rank: int, *, on: str, store: "Store | None" = None, device_id: torch.device | None = None
) -> RankLog | None:
    """Join the default process group as `rank`, and return where NCCL writes what it does; None on a CPU.

    Args:
        config: of the run.
        rank: this rank's number.
        on: type of its device.
        store: where the ranks meet; None: where the environment says, as torchrun sets it.
        device_id: makes NCCL connect at once, not with the first collective.
    """
    on_gpu = on == CUDA
    if not on_gpu:
        # Ranks, and Ray, share what may be two cores.
        torch.set_num_threads(1)
    # Before NCCL's first word, which opens the file.
    log = prepare(config.transport, rank) if on_gpu else None
    dist.init_process_group(
        # gloo also in the company of NCCL: it carries what is no tensor of a GPU.
        "cuda:nccl,cpu:gloo" if on_gpu else "gloo",
        store=store,
        # Without a store both come from the environment.
        rank=-1 if store is None else rank,
        world_size=-1 if store is None else config.run.world_size,
        timeout=timedelta(seconds=COLLECTIVE_SECONDS),
        device_id=device_id,
    )
    return log
