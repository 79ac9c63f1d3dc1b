"""One rank decides, all do the same: a plan made by each rank from its own measurements would be a plan of its own."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable
from typing import TypeVar, cast

import torch.distributed as dist

from ..errors import TrainingError

T = TypeVar("T")


def decided_on_rank_0(decide: Callable[[], T]) -> T:
    """Call `decide` on rank 0 and return its result on every rank of the default group.

    Raises:
        TrainingError: on every rank, what rank 0 raised.
    """
    told: list[T | TrainingError | None] = [None]
    if dist.get_rank() == 0:
        try:
            told = [decide()]
        except TrainingError as error:
            told = [error]
    dist.broadcast_object_list(told, src=0)
    if isinstance(told[0], TrainingError):
        raise told[0]
    return cast(T, told[0])
