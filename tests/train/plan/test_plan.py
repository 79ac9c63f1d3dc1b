"""A plan as JSON: it comes back whole, and a wrong field is named."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from tests.train.plan.plan_support import G6, HSDP, WORK
from workloads.train.errors import TrainingError
from workloads.train.plan.config import PlanConfig
from workloads.train.plan.cost import predict
from workloads.train.plan.plan import Plan


def test_a_plan_comes_back_from_json_with_its_prediction() -> None:
    plan = predict(HSDP, WORK, G6)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert Plan.from_json(json.loads(json.dumps(HSDP.to_json()))) == HSDP


def test_the_key_tells_every_decision_apart() -> None:
    others: list[dict[str, Any]] = [
        {"strategy": "fsdp"},
        {"dp_replicate": 1},
        {"dp_shard": 8},
        {"micro_batch": 2},
        {"accumulation": 8},
        {"activation_checkpoint": "full"},
        {"reshard_after_forward": False},
        {"prefetch": 0},
    ]
    assert len({HSDP.key, *(replace(HSDP, **change).key for change in others)}) == len(others) + 1
    assert predict(HSDP, WORK, G6).key == HSDP.key


def test_the_sequences_of_a_step_are_those_of_all_ranks() -> None:
    assert (HSDP.world_size, HSDP.sequences) == (8, 128)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"strategy": "ddp"}, "plan.strategy: found 'ddp'; allowed: hsdp or fsdp or unsharded-accumulation; "),
        ({"dp_shard": 0}, "plan.dp_shard: found 0; allowed: a whole number of at least 1; "),
        ({"micro_batch": 1.5}, "plan.micro_batch: found 1.5; "),
        ({"accumulation": True}, "plan.accumulation: found True; "),
        ({"activation_checkpoint": None}, "plan.activation_checkpoint: found None; "),
        ({"reshard_after_forward": 1}, "plan.reshard_after_forward: found 1; allowed: true or false; "),
        ({"prefetch": -1}, "plan.prefetch: found -1; "),
        ({"prediction": []}, "plan.prediction: found []; allowed: a JSON object; "),
        ({"prediction": {"step_seconds": "1"}}, "plan.prediction.step_seconds: found '1'; allowed: a number; "),
    ],
    ids=str,
)
def test_a_stored_plan_that_is_wrong_is_one_line(change: dict[str, object], line: str) -> None:
    with pytest.raises(TrainingError) as caught:
        Plan.from_json({**HSDP.to_json(), **change})
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_what_is_no_object_is_no_plan() -> None:
    with pytest.raises(TrainingError, match=r"^plan: found 3; allowed: a JSON object"):
        Plan.from_json(3)


def test_what_the_user_fixes() -> None:
    assert PlanConfig().fixed == {}
    assert PlanConfig(strategy="fsdp", reshard_after_forward=False).fixed == {
        "strategy": "fsdp",
        "reshard_after_forward": False,
    }
    assert PlanConfig(strategy="unsharded-accumulation").problems() == []
    (problem,) = PlanConfig(strategy="unsharded-accumulation", reshard_after_forward=True).problems()
    assert problem.startswith("plan.reshard_after_forward: found true; allowed: false with ")
    with pytest.raises(ValidationError):
        PlanConfig.model_validate({"dp_shard": 4})
