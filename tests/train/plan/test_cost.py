"""Seconds of a step, against a model worked out by hand, against measurements, and as a function that behaves."""

import random
from dataclasses import replace
from typing import Any

import pytest

from tests.train.plan.plan_support import FSDP, G6, HSDP, UNSHARDED, WORK, machine, work
from workloads.train.plan.cost import network, predict, time_terms, traffic
from workloads.train.plan.hardware import CARDS
from workloads.train.plan.machine import Machine
from workloads.train.plan.plan import ActivationCheckpoint, Plan

BY_HAND = machine(
    gemm_flops=50e12,
    kernel_efficiency=1.0,
    memory_bandwidth=float("inf"),
    in_node_bandwidth=8e9,
    in_node_latency=0.0,
    cross_node_latency=0.0,
    step_seconds=0.05,
    micro_batch_seconds=0.0,
)
"""50 TFLOP/s achieved, 0.05 s for optimizer and host: the upper bounds of a perfect overlap."""
EFA, TCP = 4.5e9, 2.2e9
IDEALISED = "row traffic, root's ends"
"""What the worked-out model leaves out."""


def rate(plan: Plan, tokens: int, accumulation: int, bandwidth: float, gradient_bytes: int = 4) -> float:
    """Return tokens/s for so many tokens of a rank and micro-batch."""
    sequence = min(tokens, 2048)
    plan = replace(plan, micro_batch=tokens // sequence, accumulation=accumulation, activation_checkpoint="none")
    # FLOPs of a token stay those of 2,048, so a short micro-batch is a part of a sequence.
    full = work(row_gradient_bytes=gradient_bytes)
    on = replace(BY_HAND, cross_node_bandwidth=bandwidth)
    if sequence < 2048:
        on = replace(on, gemm_flops=on.gemm_flops * 2048 / sequence)
    seconds = sum(term.value for term in time_terms(plan, full, on) if term.name != IDEALISED)
    return tokens * accumulation * plan.world_size / seconds


@pytest.mark.parametrize(
    ("tokens", "accumulation", "thousands"),
    [
        # HSDP, full sharding with fp32 and with bf16 reduction on EFA; the same on TCP
        (128, 1, (0.370, 0.418, 0.553, 0.232, 0.206, 0.274)),
        (2048, 4, (11.0, 6.8, 9.0, 8.6, 3.3, 4.4)),
        (4096, 8, (25.4, 13.6, 18.1, 21.9, 6.7, 8.9)),
        (8192, 4, (36.1, 27.2, 36.1, 29.4, 13.3, 17.7)),
        (8192, 8, (37.4, 27.2, 36.3, 33.4, 13.3, 17.8)),
        (16384, 4, (38.0, 38.6, 38.6, 36.0, 26.6, 35.5)),
    ],
)
def test_two_g6_12xlarge_as_worked_out_by_hand(tokens: int, accumulation: int, thousands: tuple[float, ...]) -> None:
    found = [
        rate(plan, tokens, accumulation, bandwidth, gradient_bytes)
        for bandwidth in (EFA, TCP)
        for plan, gradient_bytes in ((HSDP, 4), (FSDP, 4), (FSDP, 2))
    ]
    digit = 0.001 if tokens == 128 else 0.1
    assert [one / 1e3 for one in found] == pytest.approx(list(thousands), abs=digit * 0.7)


def test_bytes_of_each_layout_on_each_link() -> None:
    """8.10 and 10.81 GB a micro-batch for full sharding, 6.17 a step for hsdp, 8.1 a step for weights that are kept."""
    hsdp, full = traffic(HSDP, WORK, G6), traffic(FSDP, WORK, G6)
    assert (2 * hsdp.gather_bytes + hsdp.reduce_bytes) / 1e9 == pytest.approx(9.26, abs=0.01)
    assert (2 * full.gather_bytes + full.reduce_bytes) / 1e9 == pytest.approx(10.81, abs=0.01)
    assert network(HSDP, WORK, G6)[0] / 1e9 == pytest.approx(6.17, abs=0.01)
    assert network(FSDP, WORK, G6)[0] / 1e9 == pytest.approx(4 * 10.806, abs=0.01)
    assert network(UNSHARDED, WORK, G6)[0] / 1e9 == pytest.approx(8.10, abs=0.01)
    half = network(HSDP, work(all_reduce_gradient_bytes=2), G6)[0]
    assert half == network(HSDP, WORK, G6)[0] / 2


@pytest.mark.parametrize(("nodes", "gigabytes"), [(2, 6.17), (4, 9.3), (16, 11.6), (64, 12.2)])
def test_the_all_reduce_of_a_node_grows_to_twice_the_gradient(nodes: int, gigabytes: float) -> None:
    found = network(replace(HSDP, dp_replicate=nodes), WORK, machine(num_nodes=nodes))[0]
    assert found / 1e9 == pytest.approx(gigabytes, abs=0.06)


def test_bytes_do_not_depend_on_the_number_of_gpus_of_a_node() -> None:
    sizes = [network(replace(HSDP, dp_shard=gpus), WORK, machine(ranks_per_node=gpus))[0] for gpus in (1, 2, 4, 8)]
    assert sizes == pytest.approx([sizes[0]] * 4)


def test_a_row_of_two_nodes_halves_the_all_reduce_of_each() -> None:
    one = traffic(replace(HSDP, dp_replicate=4, dp_shard=4), WORK, machine(num_nodes=4))
    two = traffic(replace(HSDP, dp_replicate=2, dp_shard=8), WORK, machine(num_nodes=4))
    assert (one.nodes_of_row, two.nodes_of_row) == (1, 2)
    assert two.all_reduce_bytes / one.all_reduce_bytes == pytest.approx((1 / 2 * 2 / 2) / (3 / 4 * 2))


@pytest.mark.parametrize(
    ("micro_batch", "policy", "reshard", "thousands"),
    [(24, "selective", False, 53.0), (16, "none", False, 52.8), (8, "none", False, 49.8), (8, "selective", True, 48.4)],
)
def test_one_h200(micro_batch: int, policy: ActivationCheckpoint, reshard: bool, thousands: float) -> None:
    """Measured with FSDP2, compiled blocks and 790 TFLOP/s of matrix products; the efficiency was fitted to the first three."""
    card = CARDS["H200"]
    here = machine(num_nodes=1, ranks_per_node=1, gemm_flops=790e12, memory_bandwidth=card.memory_bandwidth,
                   peak_flops=card.peak_flops, in_node_bandwidth=None, cross_node_bandwidth=None)  # fmt: skip
    plan = replace(FSDP, dp_shard=1, micro_batch=micro_batch, accumulation=1, activation_checkpoint=policy,
                   reshard_after_forward=reshard, prefetch=0)  # fmt: skip
    found = predict(plan, work(global_batch_tokens=2048 * micro_batch), here).prediction
    assert found is not None
    assert found.tokens_per_second / 1e3 == pytest.approx(thousands, rel=0.02)


def test_utilisation_counts_model_flops_alone() -> None:
    """Recomputation takes time and is no work: it lowers both numbers."""
    none, full = (
        predict(replace(HSDP, activation_checkpoint=policy), WORK, G6).prediction for policy in ("none", "full")
    )
    assert none is not None
    assert full is not None
    assert none.mfu is not None
    assert full.mfu is not None
    assert full.mfu < none.mfu
    assert none.mfu == pytest.approx(none.tokens_per_second * 10.319e9 / 8 / 121e12, rel=1e-3)
    assert none.gemm_fraction == pytest.approx(none.mfu * 121 / 57)


def test_without_a_datasheet_there_is_no_utilisation() -> None:
    found = predict(HSDP, WORK, machine(peak_flops=None)).prediction
    assert found is not None
    assert found.mfu is None
    assert found.gemm_fraction > 0


@pytest.mark.parametrize("plan", [HSDP, FSDP, UNSHARDED], ids=lambda plan: plan.strategy)
def test_terms_add_up_and_each_says_why(plan: Plan) -> None:
    found = predict(plan, WORK, G6).prediction
    assert found is not None
    assert found.step_seconds == pytest.approx(sum(term.value for term in found.time))
    assert found.memory_bytes == round(sum(term.value for term in found.memory))
    assert found.tokens_per_second == pytest.approx(WORK.global_batch_tokens / found.step_seconds)
    assert all(term.why and term.value >= 0 for term in found.time)


def test_a_link_that_is_used_has_to_be_known() -> None:
    with pytest.raises(ValueError, match=r"^cross_node_bandwidth: found nothing"):
        time_terms(HSDP, WORK, machine(cross_node_bandwidth=None))
    with pytest.raises(ValueError, match=r"^in_node_bandwidth: found nothing"):
        time_terms(HSDP, WORK, machine(in_node_bandwidth=None))


def seconds(plan: Plan, on: Machine) -> float:
    return sum(term.value for term in time_terms(plan, WORK, on))


def layouts(count: int = 60) -> list[tuple[Plan, Machine]]:
    """Return layouts on machines of many sizes and speeds, the same in every run."""
    draw = random.Random(5)  # noqa: S311
    found: list[tuple[Plan, Machine]] = []
    for _ in range(count):
        nodes, gpus = draw.choice([1, 2, 4, 16]), draw.choice([1, 2, 4, 8])
        row = draw.choice([k for k in (1, 2, 4, 16) if nodes % k == 0])
        strategy = draw.choice(["unsharded-accumulation", "fsdp" if row == nodes else "hsdp"])
        plan = Plan(
            strategy=strategy,  # pyright: ignore[reportArgumentType]
            dp_replicate=nodes // row,
            dp_shard=row * gpus,
            micro_batch=draw.choice([1, 2, 4, 8]),
            accumulation=draw.choice([1, 2, 4, 8]),
            activation_checkpoint=draw.choice(["none", "selective", "full"]),  # pyright: ignore[reportArgumentType]
            reshard_after_forward=strategy != "unsharded-accumulation" and draw.random() < 0.5,
            prefetch=draw.choice([0, 1, 2]),
        )
        on = machine(
            num_nodes=nodes,
            ranks_per_node=gpus,
            gemm_flops=draw.uniform(1e12, 1e15),
            memory_bandwidth=draw.uniform(1e11, 8e12),
            in_node_bandwidth=draw.uniform(1e9, 5e11),
            cross_node_bandwidth=draw.uniform(1e8, 4e11),
            cross_node_latency=draw.uniform(0, 1e-4),
        )
        found.append((plan, on))
    return found


@pytest.mark.parametrize(
    ("key", "better"),
    [
        ("gemm_flops", 1.7),
        ("kernel_efficiency", 1.2),
        ("memory_bandwidth", 3.0),
        ("in_node_bandwidth", 2.0),
        ("cross_node_bandwidth", 2.0),
        ("in_node_latency", 0.5),
        ("cross_node_latency", 0.5),
        ("step_seconds", 0.5),
        ("micro_batch_seconds", 0.5),
    ],
)
def test_a_better_machine_is_never_slower(key: str, better: float) -> None:
    computes = key in ("gemm_flops", "kernel_efficiency")
    for plan, on in layouts():
        if computes and not hides(plan, replace(on, **{key: getattr(on, key) * better})):
            continue
        change: dict[str, Any] = {key: getattr(on, key) * better}
        assert seconds(plan, replace(on, **change)) <= seconds(plan, on) * (1 + 1e-12)


def hides(plan: Plan, on: Machine) -> bool:
    """Tell whether compute hides all row traffic: where it does not, it is the all-reduce that gains from slower compute."""
    return next(term.value for term in time_terms(plan, WORK, on) if term.name == "row traffic, exposed") == 0


def test_more_work_is_never_faster_and_fewer_bytes_never_slower() -> None:
    hidden = [(plan, on) for plan, on in layouts(200) if hides(plan, on)]
    assert len(hidden) > 50
    for plan, on in hidden:
        assert seconds(replace(plan, micro_batch=2 * plan.micro_batch), on) > seconds(plan, on)
        assert seconds(replace(plan, accumulation=plan.accumulation + 1), on) > seconds(plan, on)
        assert seconds(replace(plan, activation_checkpoint="full"), on) >= seconds(
            replace(plan, activation_checkpoint="selective"), on
        )
        narrow = work(all_reduce_gradient_bytes=2)
        assert network(plan, narrow, on) <= network(plan, WORK, on)


def test_what_leaves_a_node_does_not_depend_on_which_and_is_none_without_others() -> None:
    for plan, on in layouts():
        sent, taken = network(plan, WORK, on)
        assert (sent == 0) == (on.num_nodes == 1)
        assert (taken == 0) == (on.num_nodes == 1)


def test_the_ends_of_row_traffic_cost_nothing_where_all_of_it_is_waited_for() -> None:
    """A step that waits for its row traffic has the root's part in it already."""
    for plan in (FSDP, UNSHARDED):
        fast, slow = (
            {term.name: term.value for term in time_terms(plan, WORK, machine(cross_node_bandwidth=bandwidth))}
            for bandwidth in (40e9, 0.2e9)
        )
        assert fast[IDEALISED] > 0
        assert slow[IDEALISED] == 0
    link = traffic(FSDP, WORK, machine(cross_node_bandwidth=0.2e9))
    waited = 4 * (2 * link.gather_seconds + link.reduce_seconds)
    terms = {term.name: term.value for term in time_terms(FSDP, WORK, machine(cross_node_bandwidth=0.2e9))}
    alone = terms["optimizer"] + terms["fixed"]
    assert sum(terms.values()) == pytest.approx(waited + alone)


def test_a_gather_that_nothing_starts_early_is_waited_for() -> None:
    terms = [
        {term.name: term.value for term in time_terms(replace(HSDP, prefetch=ahead), WORK, G6)} for ahead in (0, 1)
    ]
    gather = traffic(HSDP, WORK, G6).gather_seconds
    assert terms[0]["row traffic, exposed"] - terms[1]["row traffic, exposed"] == pytest.approx(4 * gather)
