"""Bytes of one rank, against what was counted and measured."""

from dataclasses import replace

import pytest

from tests.train.plan.plan_support import FSDP, G6, HSDP, QWEN, UNSHARDED, WORK, machine, work
from workloads.train.plan.hardware import CARDS
from workloads.train.plan.machine import Machine
from workloads.train.plan.memory import block_activation_bytes, memory_bytes, memory_terms, root_parameters
from workloads.train.plan.plan import ActivationCheckpoint, Plan

P = QWEN.num_parameters


def terms(plan: Plan, **changes: object) -> dict[str, float]:
    return {term.name: term.value for term in memory_terms(plan, work(**changes), G6)}


@pytest.mark.parametrize(
    ("policy", "compiled", "kilobytes"),
    [("none", False, 103.5), ("none", True, 73), ("selective", True, 49), ("full", True, 3)],
)
def test_activations_of_a_block_and_token(policy: ActivationCheckpoint, compiled: bool, kilobytes: float) -> None:
    assert block_activation_bytes(QWEN, policy, compiled=compiled) / 1e3 == pytest.approx(kilobytes, abs=0.25)


def test_static_memory_is_sixteen_bytes_a_parameter() -> None:
    found = terms(HSDP)
    static = found["parameters"] + found["Adam moments"] + found["gradient sums"]
    assert static == 16 * P / 4
    assert static / 1e9 == pytest.approx(6.17, abs=0.01)


def test_gathered_weights_are_the_root_and_two_blocks_or_all() -> None:
    assert terms(HSDP)["gathered weights"] == 2 * (root_parameters(QWEN) + 2 * QWEN.layer_parameters)
    assert terms(replace(HSDP, prefetch=0))["gathered weights"] == 2 * (root_parameters(QWEN) + QWEN.layer_parameters)
    assert terms(replace(HSDP, reshard_after_forward=False))["gathered weights"] == 2 * P


def test_unreduced_gradients_are_whole_and_fp32() -> None:
    found = terms(UNSHARDED)
    assert (found["unreduced gradients"], found["gathered weights"]) == (4 * P, 2 * P)
    assert terms(FSDP)["unreduced gradients"] == 0


def test_a_chunk_of_logits_counts_while_it_is_more_than_a_block_needs() -> None:
    assert terms(HSDP)["chunk of logits"] == 1024 * 151_936 * 7
    assert terms(HSDP, compiled=False)["chunk of logits"] == 1024 * 151_936 * 12
    assert "backward of a block" in terms(HSDP, loss_chunk=128)
    assert "chunk of logits" not in terms(HSDP, loss_chunk=128)


def test_a_bf16_all_reduce_needs_its_copies_where_there_are_rows() -> None:
    assert terms(HSDP, all_reduce_gradient_bytes=2)["all-reduce copies"] == 2 * P / 4
    assert "all-reduce copies" not in terms(HSDP)
    assert "all-reduce copies" not in terms(FSDP, all_reduce_gradient_bytes=2)


def test_few_tokens_leave_the_root_reduction_as_the_peak() -> None:
    found = terms(replace(FSDP, micro_batch=1, activation_checkpoint="full"), sequence_length=128)
    assert found["root reduction"] > 0
    assert "root reduction" not in terms(HSDP)


def test_an_l4_holds_four_sequences_with_selective_checkpointing_and_not_eight() -> None:
    assert memory_bytes(HSDP, WORK, G6) < G6.memory_bytes
    # What torch sees of an L4 is half a gigabyte less than what the driver prints.
    assert memory_bytes(HSDP, WORK, G6) < 22.03 * 2**30
    assert memory_bytes(replace(HSDP, micro_batch=8), WORK, G6) > G6.memory_bytes
    assert memory_bytes(replace(HSDP, micro_batch=8, activation_checkpoint="full"), WORK, G6) < G6.memory_bytes


@pytest.mark.parametrize(
    ("micro_batch", "policy", "gigabytes"), [(24, "selective", 101), (16, "none", 100), (8, "none", 66)]
)
def test_peaks_of_one_h200(micro_batch: int, policy: ActivationCheckpoint, gigabytes: float) -> None:
    """Measured with FSDP2 at world size 1; the reserve for fragmentation is no part of what torch reports."""
    plan = replace(FSDP, dp_shard=1, micro_batch=micro_batch, accumulation=1, activation_checkpoint=policy,
                   reshard_after_forward=False, prefetch=0)  # fmt: skip
    found = memory_terms(plan, work(loss_chunk=2048), one_h200())
    assert sum(term.value for term in found if term.name != "fragmentation") / 1e9 == pytest.approx(gigabytes, rel=0.02)


def one_h200() -> Machine:
    card = CARDS["H200"]
    return machine(num_nodes=1, ranks_per_node=1, memory_bytes=card.memory_bytes, peak_flops=card.peak_flops)


@pytest.mark.parametrize("plan", [HSDP, FSDP, UNSHARDED], ids=lambda plan: plan.strategy)
def test_terms_add_up_and_each_says_why(plan: Plan) -> None:
    found = memory_terms(plan, WORK, G6)
    assert round(sum(term.value for term in found)) == memory_bytes(plan, WORK, G6)
    assert all(term.why and term.value >= 0 for term in found)
    assert len({term.name for term in found}) == len(found)


@pytest.mark.parametrize("plan", [HSDP, FSDP, UNSHARDED], ids=lambda plan: plan.strategy)
def test_more_ranks_in_a_row_never_need_more_of_each(plan: Plan) -> None:
    sizes = [memory_bytes(replace(plan, dp_shard=shard), WORK, G6) for shard in (1, 2, 4, 8, 64, 512)]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("plan", [HSDP, FSDP, UNSHARDED], ids=lambda plan: plan.strategy)
def test_memory_grows_with_tokens_and_with_what_is_kept(plan: Plan) -> None:
    for policy in ("full", "selective", "none"):
        sizes = [
            memory_bytes(replace(plan, micro_batch=n, activation_checkpoint=policy), WORK, G6) for n in (1, 2, 4, 8)
        ]
        assert sizes == sorted(sizes)
    policies = [
        memory_bytes(replace(plan, activation_checkpoint=one), WORK, G6) for one in ("full", "selective", "none")
    ]
    assert policies == sorted(policies)


def test_a_cpu_has_no_cuda_context() -> None:
    found = {term.name: term for term in memory_terms(HSDP, WORK, machine(peak_flops=None))}
    assert "fragmentation" not in found
    assert found["context"].why.startswith("process with torch")
