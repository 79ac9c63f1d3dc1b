"""torch's collectives on whole tensors, under the names that the torch at hand has for them."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable
from typing import cast

import torch
import torch.distributed as dist

_Collective = Callable[..., object]


def all_reduce(whole: torch.Tensor, group: dist.ProcessGroup) -> None:
    """Sum a tensor over the ranks, in place."""
    dist.all_reduce(whole, group=group)


def all_gather(whole: torch.Tensor, part: torch.Tensor, group: dist.ProcessGroup) -> None:
    """Put every rank's part into the whole."""
    _named("all_gather_single", "all_gather_into_tensor")(whole, part, group=group)


def reduce_scatter(part: torch.Tensor, whole: torch.Tensor, group: dist.ProcessGroup) -> None:
    """Sum a tensor over the ranks; each keeps its part."""
    _named("reduce_scatter_single", "reduce_scatter_tensor")(part, whole, group=group)


def _named(new: str, old: str) -> _Collective:
    # torch 2.13 gave them new names and warns of the old ones, which are all that 2.11 has.
    return cast(_Collective, getattr(dist, new if hasattr(dist, new) else old))
