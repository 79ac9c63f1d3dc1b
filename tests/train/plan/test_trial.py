"""The record of what was tried, and prediction beside measurement."""

import json
from dataclasses import replace

import pytest
import torch

from tests.train.plan.plan_support import G6, HSDP, WORK
from workloads.train.errors import TrainingError
from workloads.train.plan.choose import choose, prediction_of
from workloads.train.plan.cost import predict
from workloads.train.plan.trial import (
    Measured,
    Trial,
    is_out_of_memory,
    predicted_beside_measured,
    render,
)


def kept(trial: Trial) -> Trial:
    """Return a record as the next try reads it."""
    return Trial.from_json(json.loads(json.dumps(trial.to_json())))


def test_a_rank_runs_out_the_next_layout_is_tried_and_holds() -> None:
    trial = Trial()
    tried: list[str] = []
    for _ in range(2):
        plan = choose(WORK, G6, out_of_memory=trial.out_of_memory)
        tried.append(plan.key)
        trial = kept(trial.ran_out(plan, "CUDA out of memory.\nTried to allocate 2.32 GiB"))
        assert trial.state == "trying"
    plan = choose(WORK, G6, out_of_memory=trial.out_of_memory)
    trial = kept(trial.held(plan))
    assert (trial.state, trial.proven) == ("proven", plan)
    assert [mark.plan.key for mark in trial.marks] == tried
    assert trial.marks[0].said == "CUDA out of memory. Tried to allocate 2.32 GiB"
    assert plan.key not in tried
    assert choose(WORK, G6, out_of_memory=trial.out_of_memory, stored=trial.proven) == plan


def test_a_proven_layout_that_runs_out_later_is_proven_no_more() -> None:
    trial = Trial().held(HSDP).ran_out(HSDP, "step 900")
    assert (trial.state, trial.proven) == ("trying", None)
    assert trial.out_of_memory == (HSDP,)


def test_another_layout_that_runs_out_leaves_the_proof() -> None:
    assert Trial().held(HSDP).ran_out(replace(HSDP, micro_batch=8), "").proven == HSDP


def test_the_same_layout_is_marked_once() -> None:
    trial = Trial().ran_out(HSDP, "first").ran_out(predict(HSDP, WORK, G6), "second")
    assert [mark.said for mark in trial.marks] == ["second"]


def test_a_marked_layout_cannot_hold() -> None:
    with pytest.raises(TrainingError, match=r"^trial: found hsdp/2x4/.*, which ran out of memory before"):
        Trial().ran_out(HSDP, "").held(HSDP)


def test_the_record_is_a_json_object_of_marked_layouts() -> None:
    found = Trial().ran_out(HSDP, "no room").to_json()
    assert found == {"out_of_memory": {HSDP.key: {"plan": HSDP.to_json(), "said": "no room"}}, "proven": None}
    assert kept(Trial()) == Trial()


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ([], "trial: found []; allowed: a JSON object; "),
        ({}, "trial.out_of_memory: found None; "),
        ({"out_of_memory": {"a": 1}}, "trial.out_of_memory.a: found 1; "),
        ({"out_of_memory": {"a": {"plan": {}}}}, "plan.strategy: found None; "),
        ({"out_of_memory": {}, "proven": 1}, "plan: found 1; "),
    ],
)
def test_a_record_that_is_wrong_is_one_line(value: object, line: str) -> None:
    with pytest.raises(TrainingError) as caught:
        Trial.from_json(value)
    assert str(caught.value).startswith(line)


def test_what_counts_as_out_of_memory() -> None:
    wrapped = ValueError("step failed")
    wrapped.__cause__ = torch.OutOfMemoryError("CUDA out of memory.")
    for error in (
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
        MemoryError(),
        wrapped,
    ):
        assert is_out_of_memory(error)
    for error in (RuntimeError("NCCL timed out"), ValueError("out of memory"), TrainingError("the loss is nan")):
        assert not is_out_of_memory(error)


def test_prediction_beside_measurement() -> None:
    plan = predict(HSDP, WORK, G6)
    found = prediction_of(plan)
    measured = Measured(
        step_seconds=found.step_seconds * 1.1,
        tokens_per_second=found.tokens_per_second / 1.1,
        mfu=0.27,
        gemm_fraction=found.gemm_fraction,
        memory_bytes=20_000_000_000,
    )
    rows = predicted_beside_measured(plan, measured)
    ratios = {row.name: row.ratio for row in rows}
    assert ratios["step_seconds"] == pytest.approx(1.1)
    assert ratios["tokens_per_second"] == pytest.approx(1 / 1.1)
    assert ratios["gemm_fraction"] == pytest.approx(1)
    assert [row.measured for row in rows if row.name == "memory_bytes"] == [20_000_000_000]
    text = render(rows).splitlines()
    assert text[0].split() == ["predicted", "measured", "ratio"]
    assert text[1].split() == ["step_seconds", "9.113", "10.02", "1.10", "s"]
    assert rows[0].to_json()["ratio"] == pytest.approx(1.1)


def test_without_a_datasheet_utilisation_is_no_row() -> None:
    plan = predict(HSDP, WORK, replace(G6, peak_flops=None))
    measured = Measured(step_seconds=1, tokens_per_second=1, mfu=None, gemm_fraction=0.1, memory_bytes=1)
    assert "mfu" not in {row.name for row in predicted_beside_measured(plan, measured)}


def test_a_plan_without_prediction_has_nothing_to_compare() -> None:
    measured = Measured(step_seconds=1, tokens_per_second=1, mfu=None, gemm_fraction=0.1, memory_bytes=1)
    with pytest.raises(ValueError, match="found no prediction"):
        predicted_beside_measured(HSDP, measured)
