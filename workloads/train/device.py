"""The device of a rank; asked before anything that takes long to load."""

import socket

import torch

from .errors import UsageError
from .options import CUDA


def find_device(name: str) -> torch.device:
    """Return the device of this rank. Ray shows a rank its own GPU alone, as device 0.

    Raises:
        UsageError: there is no such device.
    """
    if name != CUDA:
        return torch.device(name)
    if not torch.cuda.is_available():
        raise UsageError(
            f"--device: found cuda, but {socket.gethostname()} has no CUDA device that torch can use; allowed: cpu; set --device=cpu"
        )
    return torch.device(CUDA, 0)
