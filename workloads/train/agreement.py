"""Let all ranks go on together or fail together: an error of one would leave the others waiting in a collective."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable
from typing import TypeVar, cast

import torch
import torch.distributed as dist

from .errors import TrainingError

T = TypeVar("T")
# All collectives are on tensors in host memory, so the default group needs a gloo half ("cuda:nccl,cpu:gloo").


def everyone(do: Callable[[], T]) -> list[T]:
    """Run `do` on every rank and return the results of all, by rank.

    Raises:
        TrainingError: on every rank, what the first rank that failed so has raised.
    """
    mine: T | TrainingError
    try:
        mine = do()
    except TrainingError as error:
        mine = error
    found = gathered(mine)
    for one in found:
        if isinstance(one, TrainingError):
            raise one
    return cast(list[T], found)


def gathered(mine: T, group: dist.ProcessGroup | None = None) -> list[T]:
    """Return what each rank of a group gave, by rank, on every rank; None: the default group."""
    found: list[T | None] = [None] * dist.get_world_size(group)
    dist.all_gather_object(found, mine, group=group)
    return cast(list[T], found)


def each(do: Callable[[], T]) -> T:
    """Run `do` on every rank and return this rank's own result, which does not travel. Raises TrainingError on every rank."""
    kept: list[T] = []
    everyone(lambda: kept.append(do()))
    return kept[0]


def first_rank(do: Callable[[], T]) -> T:
    """Run `do` on rank 0 alone and return its result on every rank. Raises TrainingError on every rank."""
    return cast(T, everyone(do if dist.get_rank() == 0 else _nothing)[0])


def collect(mine: T) -> list[T] | None:
    """Return what each rank gave, by rank, on rank 0; None on the others."""
    found: list[T | None] = [None] * dist.get_world_size()
    dist.gather_object(mine, found if dist.get_rank() == 0 else None, dst=0)
    return cast(list[T], found) if dist.get_rank() == 0 else None


def deal(parts: list[T] | None) -> T:
    """Return to each rank its entry of the list that rank 0 holds."""
    got: list[T | None] = [None]
    dist.scatter_object_list(got, cast("list[T | None] | None", parts), src=0)
    return cast(T, got[0])


def on_all(mine: bool) -> bool:
    """Tell whether it is so on every rank: one all-reduce of four bytes."""
    return _reduced(mine, dist.ReduceOp.MIN)


def on_any(mine: bool) -> bool:
    """Tell whether it is so on some rank: one all-reduce of four bytes."""
    return _reduced(mine, dist.ReduceOp.MAX)


def _reduced(mine: bool, how: dist.ReduceOp.RedOpType) -> bool:
    shared = torch.tensor([int(mine)], dtype=torch.int32)
    dist.all_reduce(shared, how)
    return bool(shared.item())


def _nothing() -> None:
    return None
