"""Let all ranks go on together or fail together: an error of one would leave the others waiting in a collective."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable
from typing import TypeVar, cast

import torch.distributed as dist

from .errors import StoreError

T = TypeVar("T")


def everyone(do: Callable[[], T]) -> list[T]:
    """Run `do` on every rank and return the results of all, by rank.

    Raises:
        StoreError: on every rank, with the words of the first rank that failed so.
    """
    mine: T | StoreError
    try:
        mine = do()
    except StoreError as error:
        mine = error
    found: list[T | StoreError | None] = [None] * dist.get_world_size()
    dist.all_gather_object(found, mine)
    for one in found:
        if isinstance(one, StoreError):
            raise one
    return cast(list[T], found)


def first_rank(do: Callable[[], T]) -> T:
    """Run `do` on rank 0 alone and return its result on every rank. Raises StoreError on every rank."""
    return cast(T, everyone(do if dist.get_rank() == 0 else _nothing)[0])


def _nothing() -> None:
    return None
