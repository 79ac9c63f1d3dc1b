"""The bandwidth of collectives on a group."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import pytest
import torch
import torch.distributed as dist

from tests.train.rank_pool import Ranks
from workloads.train.transport.bandwidth import factor, measure
from workloads.train.transport.report import Bandwidth

NAMES = ("all_reduce", "all_gather", "reduce_scatter")


@pytest.mark.parametrize(("num_ranks", "reduce", "other"), [(2, 1.0, 0.5), (4, 1.5, 0.75), (8, 1.75, 0.875)])
def test_the_factor_is_that_of_the_nccl_tests(num_ranks: int, reduce: float, other: float) -> None:
    assert [factor(name, num_ranks) for name in NAMES] == [reduce, other, other]


def measured(rank: int) -> list[Bandwidth]:
    alone = [dist.new_group([one]) for one in range(4)][rank]
    world = dist.group.WORLD
    assert world is not None
    return measure({"world": world, "alone": alone}, torch.device("cpu"), sizes=(1008, 1 << 16), rounds=1)  # type: ignore[dict-item]


def test_every_collective_and_size_is_measured(ranks: Ranks) -> None:
    for found in ranks(measured):
        assert [(one.group, one.collective, one.size_bytes) for one in found] == [
            ("world", name, size) for size in (1008, 1 << 16) for name in NAMES
        ]
        for one in found:
            assert one.seconds > 0
            assert one.bus_bytes_per_second == pytest.approx(one.size_bytes / one.seconds * factor(one.collective, 4))
