"""The probe on four ranks of two nodes, over gloo: all get one machine, and one rank's plan is everybody's."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import time
from collections.abc import Generator
from typing import cast

import pytest
import torch
import torch.distributed as dist

from tests.train.plan.plan_support import work
from tests.train.rank_pool import Ranks, pool
from workloads.train.agreement import first_rank
from workloads.train.errors import TrainingError, UsageError
from workloads.train.model_shape import BUILT_IN, shape_of
from workloads.train.plan.choose import choose
from workloads.train.plan.machine import Machine
from workloads.train.plan.plan import Plan
from workloads.train.plan.probe import probe

pytestmark = pytest.mark.xdist_group("ranks")


@pytest.fixture(scope="module")
def ranks() -> Generator[Ranks]:
    with pool(4) as four:
        yield four


def groups(rank: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    """Return the groups of this rank in two nodes of two ranks: its node's, and that of its place."""
    made = {ranks: dist.new_group(list(ranks)) for ranks in ((0, 1), (2, 3), (0, 2), (1, 3))}
    mine = [cast(dist.ProcessGroup, group) for ranks, group in made.items() if rank in ranks]
    return mine[0], mine[1]


def measure(rank: int) -> tuple[Machine, float]:
    inside, across = groups(rank)
    started = time.monotonic()
    found = probe(torch.device("cpu"), node=f"node-{rank // 2}", in_node=inside, cross_node=across)
    return found, time.monotonic() - started


def wrong_nodes(rank: int) -> str:
    inside, across = groups(rank)
    try:
        probe(torch.device("cpu"), node="all-on-one", in_node=inside, cross_node=across)
    except UsageError as error:
        return str(error)
    return ""


def uneven(rank: int) -> str:
    try:
        probe(torch.device("cpu"), node="a" if rank < 3 else "b", in_node=None, cross_node=None)
    except UsageError as error:
        return str(error)
    return ""


def planned(rank: int) -> Plan:
    """Each rank comes with a machine of its own, as noise would have it; rank 0's counts."""
    inside, across = groups(rank)
    machine = probe(torch.device("cpu"), node=f"node-{rank // 2}", in_node=inside, cross_node=across)
    tiny = work(shape=shape_of(BUILT_IN["tiny-qwen2"]), sequence_length=64, global_batch_tokens=64 * 4 * 8)
    return first_rank(lambda: choose(tiny, machine))


def failing(rank: int) -> str:
    def decide() -> Plan:
        if rank:
            raise AssertionError("only rank 0 decides")
        raise TrainingError("memory: found too much")

    try:
        first_rank(decide)
    except TrainingError as error:
        return str(error)
    return ""


def test_every_rank_gets_the_same_measured_machine(ranks: Ranks) -> None:
    found = ranks(measure)
    machines: list[Machine] = [one[0] for one in found]
    assert machines == [machines[0]] * 4
    machine = machines[0]
    assert (machine.num_nodes, machine.ranks_per_node, machine.peak_flops) == (2, 2, None)
    assert 1e8 < machine.gemm_flops < 1e13
    assert 1e8 < machine.memory_bandwidth < 1e13
    assert machine.in_node_bandwidth is not None
    assert machine.cross_node_bandwidth is not None
    assert 1e5 < machine.in_node_bandwidth < 1e12
    assert 1e5 < machine.cross_node_bandwidth < 1e12
    assert machine.memory_bytes > 2**28
    marks = {fact.name: fact.mark for fact in machine.facts}
    assert marks["GEMM rate"] == marks["in-node bandwidth"] == marks["cross-node bandwidth"] == "measured"
    assert marks["kernel efficiency"] == "assumed"
    assert max(one[1] for one in found) < 30


def test_one_plan_for_all(ranks: Ranks) -> None:
    plans: list[Plan] = ranks(planned)
    assert plans == [plans[0]] * 4
    assert plans[0].world_size == 4
    assert plans[0].sequences == 32
    assert plans[0].prediction is not None


def test_what_rank_0_refuses_all_refuse(ranks: Ranks) -> None:
    assert ranks(failing) == ["memory: found too much"] * 4


def test_groups_of_other_nodes_are_refused_on_every_rank(ranks: Ranks) -> None:
    found = ranks(wrong_nodes)
    assert len(set(found)) == 1
    assert found[0].startswith("nodes: found 1 with 4 ranks each, while the run is laid out for 2 with 2; allowed: ")


def test_uneven_nodes_are_refused_on_every_rank(ranks: Ranks) -> None:
    found = ranks(uneven)
    assert len(set(found)) == 1
    assert found[0].startswith("world size: found 4 ranks, 3 on a, 1 on b; allowed: as many on every node")
