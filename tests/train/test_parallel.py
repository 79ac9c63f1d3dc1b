"""Sharded training computes what one process computes: loss, every gradient, and the norm."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from tests.train.parallel_support import (
    CPU,
    Case,
    Result,
    backwards,
    batches,
    build,
    local,
    one_step,
    reference,
    sharded,
)
from tests.train.rank_pool import Ranks, pool
from workloads.train.data.batch import Batch
from workloads.train.errors import UsageError
from workloads.train.model import materialise
from workloads.train.optimizer import make_optimizer
from workloads.train.parallel import refuse_mixed
from workloads.train.sections import OptimizerConfig

pytestmark = pytest.mark.xdist_group("ranks")


def assert_equal(found: Result, wanted: Result, relative: float = 1e-5) -> None:
    assert found.tokens == wanted.tokens
    assert found.loss == pytest.approx(wanted.loss, rel=relative)
    assert found.norm == pytest.approx(wanted.norm, rel=relative)
    assert found.gradients.keys() == wanted.gradients.keys()
    for name, gradient in wanted.gradients.items():
        error = (found.gradients[name] - gradient).norm() / gradient.norm()
        assert error < relative, f"{name}: {error:.2e}"


@pytest.mark.parametrize(
    "case",
    [
        Case(replicate=2, strategy="hsdp"),
        Case(shard=2),
        Case(replicate=2, strategy="hsdp", accumulation=4),
        Case(shard=2, accumulation=4, activation_checkpoint="selective"),
        Case(shard=2, accumulation=4, activation_checkpoint="full", reshard=False),
        Case(shard=2, accumulation=4, strategy="unsharded-accumulation", reshard=False),
        Case(shard=2, compile=True, activation_checkpoint="selective"),
        Case(shard=2, accumulation=2, model="tiny-llama"),
    ],
    ids=str,
)
def test_two_ranks_compute_what_one_process_computes(two: Ranks, case: Case) -> None:
    data = batches(2 * case.accumulation)
    wanted = reference(data, case.model)
    for found in two(one_step, case, data):
        assert_equal(found, wanted)


@pytest.mark.parametrize(
    "case",
    [
        Case(replicate=2, shard=2, strategy="hsdp"),
        Case(replicate=2, shard=2, strategy="hsdp", accumulation=3, activation_checkpoint="selective"),
        Case(replicate=2, shard=2, strategy="unsharded-accumulation", accumulation=3, reshard=False),
        Case(replicate=2, shard=2, strategy="hsdp", accumulation=2, model="tiny-llama"),
    ],
    ids=str,
)
def test_a_mesh_of_four_computes_what_one_process_computes(four: Ranks, case: Case) -> None:
    data = batches(4 * case.accumulation)
    wanted = reference(data, case.model)
    for found in four(one_step, case, data):
        assert_equal(found, wanted)


@pytest.mark.parametrize(
    "case", [Case(shard=2, compute="bf16"), Case(replicate=2, strategy="hsdp", compute="bf16", accumulation=2)], ids=str
)
def test_bf16_computes_nearly_the_same(two: Ranks, case: Case) -> None:
    data = batches(2 * case.accumulation)
    wanted = reference(data)
    for found in two(one_step, case, data):
        assert found.loss == pytest.approx(wanted.loss, rel=2e-3)
        assert found.norm == pytest.approx(wanted.norm, rel=2e-2)
        for name, gradient in wanted.gradients.items():
            assert found.gradients[name].dtype == torch.float32
            alike = torch.nn.functional.cosine_similarity(found.gradients[name].flatten(), gradient.flatten(), dim=0)
            assert alike > 0.99, name


def test_gradients_between_replicas_in_bf16_are_rounded_once(four: Ranks) -> None:
    """Micro-batches are summed in fp32 and the sum is cast: half a unit of bf16, for however many of them."""
    case = Case(replicate=2, shard=2, strategy="hsdp", accumulation=4, replica_reduce="bf16")
    data = batches(16)
    wanted, found = reference(data), four(one_step, case, data)
    for name, gradient in wanted.gradients.items():
        assert all(one.gradients[name].equal(found[0].gradients[name]) for one in found), "replicas must not drift"
        error = float((found[0].gradients[name] - gradient).norm() / gradient.norm())
        assert 1e-4 < error < 2**-8, name
    assert found[0].norm == pytest.approx(wanted.norm, rel=2**-8)


def test_the_all_reduce_waits_for_the_last_micro_batch(four: Ranks) -> None:
    """Three FSDP groups, two blocks and the root: three a step, not three a micro-batch."""
    case = Case(replicate=2, shard=2, strategy="hsdp", accumulation=3)
    assert four(_collectives, case, batches(12)) == [(9, 3)] * 4


def test_unsharded_accumulation_gathers_and_reduces_once_a_step(two: Ranks) -> None:
    case = Case(shard=2, strategy="unsharded-accumulation", accumulation=3, reshard=False)
    assert two(_collectives, case, batches(6)) == [(3, 0)] * 2


def test_full_sharding_reduces_every_micro_batch(two: Ranks) -> None:
    assert two(_collectives, Case(shard=2, accumulation=3), batches(6)) == [(9, 0)] * 2


_SCATTERS = ("reduce_scatter_tensor", "reduce_scatter_single")
"""What FSDP calls, by the torch."""


def _collectives(rank: int, case: Case, data: list[Batch]) -> tuple[int, int]:
    """Return how many reduce-scatters and all-reduces of gradients a step makes."""
    parallel, counted = sharded(case), Counter[str]()
    calls = {name: getattr(dist, name) for name in (*_SCATTERS, "all_reduce") if hasattr(dist, name)}

    def counting(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if "foreach_reduce" in {frame.name for frame in traceback.extract_stack()}:
                counted["reduce" if name == "all_reduce" else "scatter"] += 1
            return calls[name](*arguments, **options)

        return call

    for name in calls:
        setattr(dist, name, counting(name))
    try:
        backwards(rank, parallel, case, data)
    finally:
        for name, call in calls.items():
            setattr(dist, name, call)
    return counted["scatter"], counted["reduce"]


def test_weights_and_optimizer_are_fp32_while_bf16_is_computed_and_the_weights_move(two: Ranks) -> None:
    """https://github.com/areal-project/AReaL/issues/1292: in bf16, at this learning rate, next to none would.

    One in ten thousand may be where it was: it went there and back.
    """
    for dtypes, computed, still in two(_twenty_steps, Case(shard=2, compute="bf16")):
        assert dtypes == {torch.float32}
        assert computed == {torch.bfloat16}
        assert still < 1e-4


def _twenty_steps(rank: int, case: Case) -> tuple[set[torch.dtype], set[torch.dtype], float]:
    parallel = sharded(case)
    module, computed = parallel.module, set[torch.dtype]()
    optimizer = make_optimizer(module, OptimizerConfig(learning_rate=2e-5, weight_decay=0.0))
    before = {name: local(one).clone() for name, one in module.named_parameters()}
    for block in module.blocks:
        block.register_forward_hook(lambda _block, _input, out: computed.add(out.dtype))
    for step in range(20):
        backwards(rank, parallel, case, batches(2, seed=step))
        optimizer.step()
        optimizer.zero_grad()
    dtypes = {one.dtype for one in module.parameters()}
    dtypes |= {value.dtype for state in optimizer.state.values() for name, value in state.items() if name != "step"}
    still = sum(int((local(one) == before[name]).sum()) for name, one in module.named_parameters())
    return dtypes, computed, still / sum(one.numel() for one in before.values())


def test_a_tied_head_stays_the_embedding_when_it_is_sharded_and_trained(two: Ranks) -> None:
    """https://github.com/huggingface/accelerate/pull/4171"""
    for tied, names, gathered in two(_tie, Case(shard=2)):
        assert tied
        assert "lm_head.weight" not in names
        assert gathered == 320 * 96


def _tie(rank: int, case: Case) -> tuple[bool, list[str], int]:
    parallel = sharded(case)
    module = parallel.module
    optimizer = make_optimizer(module, OptimizerConfig(learning_rate=1e-2))
    backwards(rank, parallel, case, batches(2))
    optimizer.step()
    embedding = module.get_parameter("model.embed_tokens.weight")
    return module.head_weight is embedding, list(module.state_dict()), embedding.numel()


@pytest.mark.parametrize("case", [Case(replicate=2, shard=2, strategy="hsdp"), Case(shard=4)], ids=str)
@pytest.mark.parametrize("model", ["tiny-qwen2", "tiny-llama"])
def test_every_rank_reads_its_rows_of_a_file(four: Ranks, case: Case, model: str, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(8)
    weights = {
        name: torch.randn(one.shape, generator=generator) for name, one in build(Case(model=model)).named_parameters()
    }
    save_file(weights, tmp_path / "model.safetensors")
    for found in four(_whole, replace(case, model=model, weights=tmp_path)):
        assert found.keys() == weights.keys()
        assert all(found[name].equal(weights[name]) for name in weights)


def test_rows_that_do_not_divide_by_the_ranks_are_read_and_drawn() -> None:
    with pool(3) as three:
        (found, *others) = three(_whole, Case(shard=3))
        assert len(others) == 2
        (alone,) = [build(Case())]
        materialise(alone, CPU, weights=None, seed=11)
        for name, parameter in alone.named_parameters():
            assert found[name].equal(parameter), name


def _whole(rank: int, case: Case) -> dict[str, torch.Tensor]:
    module = sharded(case).module
    return {name: cast(DTensor, one).full_tensor().detach().clone() for name, one in module.named_parameters()}


@pytest.mark.parametrize(
    ("case", "line"),
    [
        (
            Case(replicate=2, strategy="hsdp", accumulation=2, reduce="bf16"),
            "precision.reduce: found bf16 with strategy hsdp and 2 micro-batches, which it would sum in bf16; allowed: fp32; ",
        ),
        (
            Case(shard=2, strategy="unsharded-accumulation", accumulation=2, reduce="bf16"),
            "precision.reduce: found bf16 with strategy unsharded-accumulation and 2 micro-batches, ",
        ),
        (Case(shard=2, replica_reduce="bf16"), "precision.replica_reduce: found bf16 with a plan of one replica, "),
        (
            Case(replicate=2, strategy="unsharded-accumulation", accumulation=2, replica_reduce="bf16"),
            "precision.replica_reduce: found bf16 with strategy unsharded-accumulation; allowed: fp32; ",
        ),
        (
            Case(replicate=2, shard=2, strategy="hsdp"),
            "plan: found dp_replicate 2 x dp_shard 2; allowed: a product of 2, the number of ranks",
        ),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_refused_before_anything_is_sharded(two: Ranks, case: Case, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        two(_sharded, case)
    assert str(caught.value).startswith(line)


def _sharded(_rank: int, case: Case) -> None:
    sharded(case)


def test_a_reduction_in_bf16_is_taken_where_nothing_is_summed_in_it() -> None:
    assert Case(shard=2, accumulation=4, reduce="bf16").precision.problems(Case(shard=2, accumulation=4).plan) == []
    assert Case(reduce="bf16").precision.problems(Case(replicate=2, strategy="hsdp").plan) == []


def test_nodes_of_different_cards_are_refused() -> None:
    refuse_mixed(["NVIDIA L4"] * 8)
    with pytest.raises(UsageError) as caught:
        refuse_mixed(["NVIDIA L4"] * 4 + ["NVIDIA A10G"] * 4)
    assert str(caught.value) == (
        "GPUs: found 4 ranks on NVIDIA A10G (first: rank 4), 4 ranks on NVIDIA L4 (first: rank 0); allowed: one kind; "
        "use nodes of one instance type"
    )


def test_checkpointing_puts_nothing_around_the_blocks(two: Ranks) -> None:
    names = [name for name, _ in build(Case()).named_parameters()]
    for case in (
        Case(shard=2, activation_checkpoint="full", compile=True),
        Case(shard=2, activation_checkpoint="selective"),
    ):
        assert two(_names, case) == [names] * 2


def _names(_rank: int, case: Case) -> list[str]:
    return [name for name, _ in sharded(case).module.named_parameters()]
