"""The device of a rank; asked before anything that takes long to load."""

import socket

import torch

from .errors import UsageError

CUDA = "cuda"


def find_device(name: str, local_rank: int = 0) -> torch.device:
    """Return the device of this rank. Ray may show a rank its own GPU alone, as device 0; torchrun shows it all of its node's.

    Raises:
        UsageError: there is no such device.
    """
    if name != CUDA:
        return torch.device(name)
    if not torch.cuda.is_available():
        raise UsageError(
            f"--device: found cuda, but {socket.gethostname()} has no CUDA device that torch can use; allowed: cpu; set --device=cpu"
        )
    count = torch.cuda.device_count()
    if count > 1 and local_rank >= count:
        raise UsageError(
            f"ranks: found local rank {local_rank} on {socket.gethostname()}, which has {count} GPUs; allowed: a rank for each; "
            "start as many ranks a node as it has GPUs"
        )
    return torch.device(CUDA, local_rank if count > 1 else 0)
