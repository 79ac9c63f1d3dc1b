"""The choice: every candidate keeps the global batch, what does not fit is dropped, and the rest is ranked the same way everywhere."""

import random
import re
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.train.plan.plan_support import G6, HSDP, LLAMA, QWEN, WORK, machine, work
from workloads.train.errors import TrainingError, UsageError
from workloads.train.plan.candidates import candidates, check_batch, meshes
from workloads.train.plan.choose import ALIKE, at_least_as_hungry, choose, prediction_of, rank
from workloads.train.plan.config import PlanConfig
from workloads.train.plan.instances import instance, machine_of
from workloads.train.plan.memory import memory_bytes
from workloads.train.plan.plan import Plan


def refused(**changes: object) -> str:
    with pytest.raises(UsageError) as caught:
        rank(work(**changes), G6)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("nodes", "gpus", "sequences"), [(1, 1, 12), (2, 4, 16), (3, 2, 7), (6, 1, 4), (16, 8, 2)])
def test_every_candidate_keeps_the_global_batch(nodes: int, gpus: int, sequences: int) -> None:
    asked = work(global_batch_tokens=2048 * sequences * nodes * gpus)
    found = candidates(asked, machine(num_nodes=nodes, ranks_per_node=gpus))
    for plan in found:
        assert plan.sequences * asked.sequence_length == asked.global_batch_tokens
        assert plan.world_size == nodes * gpus
        assert plan.dp_shard % gpus == 0
        assert (plan.strategy == "fsdp") <= (plan.dp_replicate == 1)
        assert (plan.strategy == "hsdp") <= (plan.dp_replicate > 1)
    assert {plan.micro_batch for plan in found} == {n for n in range(1, sequences + 1) if sequences % n == 0}
    assert len({plan.key for plan in found}) == len(found)


def test_a_row_of_the_mesh_is_whole_nodes() -> None:
    assert meshes(G6) == ((2, 4), (1, 8))
    assert meshes(machine(num_nodes=6)) == ((6, 4), (3, 8), (2, 12), (1, 24))
    assert meshes(machine(num_nodes=1, ranks_per_node=1)) == ((1, 1),)


def test_two_g6_12xlarge_get_what_fits_and_sends_least() -> None:
    plan = rank(WORK, G6)[0]
    assert replace(plan, prediction=None) == HSDP


def test_what_does_not_fit_is_dropped_and_the_rest_is_ranked() -> None:
    found = rank(WORK, G6)
    assert all(prediction_of(plan).memory_bytes <= G6.memory_bytes for plan in found)
    assert any(memory_bytes(plan, WORK, G6) > G6.memory_bytes for plan in candidates(WORK, G6))
    fastest = min(prediction_of(plan).step_seconds for plan in found)
    assert prediction_of(found[0]).step_seconds <= fastest * (1 + ALIKE)
    assert prediction_of(found[-1]).step_seconds > 1.5 * fastest
    seconds = [prediction_of(plan).step_seconds for plan in found]
    assert all(later * (1 + ALIKE) > earlier for earlier, later in pairwise(seconds))


def test_ties_do_not_depend_on_the_order_of_the_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [plan.key for plan in rank(WORK, G6)]

    def shuffled(*arguments: object) -> list[Plan]:
        found = candidates(*arguments)  # pyright: ignore[reportArgumentType]
        random.Random(3).shuffle(found)  # noqa: S311
        return found

    monkeypatch.setattr("workloads.train.plan.choose.candidates", shuffled)
    assert [plan.key for plan in rank(WORK, G6)] == expected


def test_a_slow_network_is_given_less_to_carry() -> None:
    slow = rank(WORK, machine(cross_node_bandwidth=0.3e9))[0]
    assert prediction_of(slow).network_bytes == prediction_of(rank(WORK, G6)[0]).network_bytes
    assert (
        rank(WORK, machine(cross_node_bandwidth=400e9, in_node_bandwidth=3e9))[0].strategy == "unsharded-accumulation"
    )


def test_more_memory_needs_no_recomputation() -> None:
    assert rank(WORK, machine(memory_bytes=80 * 2**30))[0].activation_checkpoint == "none"


@pytest.mark.parametrize(
    ("tokens", "nearest"),
    [(262_143, "set 245760 or 262144"), (262_145, "set 262144 or 278528"), (100, "set 16384"), (16_385, "set 16384 or 32768")],
)  # fmt: skip
def test_a_global_batch_that_cannot_be_divided_names_the_nearest(tokens: int, nearest: str) -> None:
    line = refused(global_batch_tokens=tokens)
    assert line.startswith(
        f"global_batch_tokens: found {tokens}; allowed: a multiple of 16384, which is 8 ranks x 2048 tokens"
    )
    assert line.endswith(nearest)


def test_the_batch_can_be_checked_before_anything_starts() -> None:
    assert check_batch(WORK, 8) == 16
    with pytest.raises(UsageError, match=r"^global_batch_tokens: "):
        check_batch(WORK, 7)


def test_eight_billion_on_two_nodes_of_l4_is_refused_with_the_arithmetic_and_what_fits() -> None:
    line = refused(shape=LLAMA)
    assert line.startswith("memory: found 27.")
    for term in ("parameters 4.02", "Adam moments 8.03", "gradient sums 4.02", "gathered weights", "fragmentation"):
        assert term in line
    assert "allowed: 24.15 GB; take 3 nodes (now 2)" in line
    assert "bf16" not in line
    three = machine(num_nodes=3)
    assert rank(work(shape=LLAMA, global_batch_tokens=12 * 2048 * 8), three)


@pytest.mark.parametrize(("layers", "nodes"), [(32, 3), (48, 4), (80, 6), (120, 9), (160, 12)])
def test_no_fewer_nodes_than_those_offered_would_do(layers: int, nodes: int) -> None:
    shape = replace(LLAMA, num_layers=layers)
    offered = re.search(r"take (\d+) nodes", refused(shape=shape))
    assert offered is not None
    assert int(offered[1]) == nodes
    for count, fits in ((nodes - 1, False), (nodes, True)):
        on = machine(num_nodes=count)
        asked = work(shape=shape, global_batch_tokens=on.world_size * 2048 * 2)
        smallest = min(memory_bytes(plan, asked, on) for plan in candidates(asked, on))
        assert (smallest <= on.memory_bytes) == fits


def test_the_smallest_of_each_change_is_offered() -> None:
    line = refused(sequence_length=65_536, global_batch_tokens=65_536 * 16, loss_chunk=65_536)
    assert "set the loss chunk to " in line
    long = refused(sequence_length=131_072, global_batch_tokens=131_072 * 8)
    assert "set sequence_length to 65536 (now 131072)" in long


def test_what_is_fixed_is_offered_to_be_left_open() -> None:
    pins = PlanConfig(activation_checkpoint="none", micro_batch=16)
    with pytest.raises(UsageError, match=r"leave out what is fixed: plan.micro_batch, plan.activation_checkpoint"):
        rank(WORK, G6, pins)


def test_a_card_that_no_number_of_nodes_helps() -> None:
    with pytest.raises(UsageError, match=r"no number of nodes up to 1024 helps; take a card with more memory$"):
        rank(work(shape=replace(QWEN, vocab_size=3_000_000), sequence_length=128, loss_chunk=128), G6)


def test_what_the_user_fixes_stays() -> None:
    pins = PlanConfig(
        strategy="fsdp", micro_batch=2, activation_checkpoint="full", reshard_after_forward=True, prefetch=2
    )
    (plan,) = rank(WORK, G6, pins)
    assert plan.key == "fsdp/1x8/2x8/full/reshard/prefetch2"


@pytest.mark.parametrize(
    ("pins", "on", "line"),
    [
        (PlanConfig(micro_batch=3), G6, "plan.micro_batch: found 3; allowed: 1, 2, 4, 8, 16, as the global batch gives each of 8 ranks 16"),
        (PlanConfig(strategy="hsdp"), machine(num_nodes=1), "plan.strategy: found hsdp; allowed: fsdp on one node"),
        (PlanConfig(strategy="unsharded-accumulation", micro_batch=16), G6, "plan: found strategy unsharded-accumulation, micro_batch 16; "),
    ],
)  # fmt: skip
def test_what_cannot_be_fixed_is_refused(pins: PlanConfig, on: object, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        rank(WORK, on, pins)  # pyright: ignore[reportArgumentType]
    assert str(caught.value).startswith(line)


def test_a_marked_layout_is_passed_over_and_so_is_what_needs_as_much() -> None:
    first = choose(WORK, G6)
    second = choose(WORK, G6, out_of_memory=[first])
    assert second.key != first.key
    assert not at_least_as_hungry(second, first)
    third = choose(WORK, G6, out_of_memory=[first, second])
    assert len({first.key, second.key, third.key}) == 3


def test_when_everything_ran_out_the_run_ends() -> None:
    lean = replace(HSDP, micro_batch=1, accumulation=16, activation_checkpoint="full", prefetch=0)
    every = [replace(lean, strategy=strategy, dp_shard=512) for strategy in ("hsdp", "fsdp", "unsharded-accumulation")]
    with pytest.raises(
        TrainingError, match=r"^plan: found 3 layouts that ran out of memory .* take a shorter sequence"
    ) as caught:
        choose(WORK, G6, out_of_memory=every)
    assert caught.value.exit_code == 1


def test_a_resume_at_the_same_size_takes_the_stored_plan() -> None:
    stored = replace(HSDP, micro_batch=1, accumulation=16)
    assert choose(WORK, G6, stored=stored) is stored


@pytest.mark.parametrize(
    "why", ["another world size", "another batch", "another choice", "ran out", "smaller cards", "other nodes"]
)
def test_a_stored_plan_that_no_longer_holds_is_made_anew(why: str) -> None:
    stored = replace(HSDP, micro_batch=2, accumulation=8, activation_checkpoint="none", reshard_after_forward=False)
    assert choose(WORK, G6, stored=stored) is stored
    match why:
        case "another world size":
            found = choose(WORK, machine(num_nodes=1), stored=stored)
            assert found.world_size == 4
        case "another batch":
            found = choose(work(global_batch_tokens=131_072), G6, stored=stored)
        case "another choice":
            found = choose(WORK, G6, fixed=PlanConfig(activation_checkpoint="full"), stored=stored)
            assert found.activation_checkpoint == "full"
        case "smaller cards":
            found = choose(WORK, machine(memory_bytes=16 * 2**30), stored=stored)
        case "other nodes":
            found = choose(WORK, machine(num_nodes=1, ranks_per_node=8), stored=stored)
        case _:
            found = choose(WORK, G6, stored=stored, out_of_memory=[stored])
    assert found.key != stored.key


def test_hungrier_means_no_leaner_in_any_way() -> None:
    assert at_least_as_hungry(HSDP, HSDP)
    assert at_least_as_hungry(replace(HSDP, micro_batch=8, accumulation=2), HSDP)
    assert not at_least_as_hungry(replace(HSDP, micro_batch=8, activation_checkpoint="full"), HSDP)
    assert not at_least_as_hungry(replace(HSDP, strategy="fsdp", dp_replicate=1, dp_shard=8), HSDP)
    assert not at_least_as_hungry(replace(HSDP, dp_shard=8), HSDP)
    assert at_least_as_hungry(replace(HSDP, reshard_after_forward=False), HSDP)
    assert not at_least_as_hungry(HSDP, replace(HSDP, reshard_after_forward=False))


@pytest.mark.parametrize("kind", ["g6.12xlarge", "p5.48xlarge", "g5.12xlarge"])
def test_more_nodes_never_need_more_memory_of_a_rank(kind: str) -> None:
    leanest: list[int] = []
    for nodes in (1, 2, 4, 8, 16):
        on = machine_of(instance(kind), nodes)
        asked = work(global_batch_tokens=on.world_size * 2048 * 2)
        leanest.append(min(memory_bytes(plan, asked, on) for plan in candidates(asked, on)))
    assert leanest == sorted(leanest, reverse=True)
