"""The schedule, the groups, and the norm."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import math

import pytest
import torch

from workloads.train.optimizer import clip, learning_rate, make_optimizer
from workloads.train.sections import OptimizerConfig

CONFIG = OptimizerConfig(learning_rate=1.0, warmup_steps=10, final_fraction=0.1)


def test_the_warm_up_is_linear_and_never_zero() -> None:
    assert [learning_rate(CONFIG, step, 110) for step in (1, 5, 10)] == pytest.approx([0.1, 0.5, 1.0])


def test_the_cosine_ends_at_the_fraction_and_is_half_way_in_the_middle() -> None:
    assert learning_rate(CONFIG, 60, 110) == pytest.approx(0.55)
    assert learning_rate(CONFIG, 110, 110) == pytest.approx(0.1)
    assert learning_rate(CONFIG, 200, 110) == pytest.approx(0.1)


def test_without_warm_up_the_first_step_has_nearly_the_whole_rate() -> None:
    assert learning_rate(OptimizerConfig(learning_rate=1.0), 1, 1000) == pytest.approx(1.0, abs=1e-4)


def test_a_run_that_is_all_warm_up_stays_below_the_rate() -> None:
    assert max(learning_rate(CONFIG, step, 5) for step in range(1, 6)) == pytest.approx(0.5)


def test_matrices_decay_and_norms_and_biases_do_not() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))
    optimizer = make_optimizer(module, OptimizerConfig(weight_decay=0.3))
    decay = {id(one): group["weight_decay"] for group in optimizer.param_groups for one in group["params"]}
    assert [decay[id(one)] for one in module.parameters()] == [0.3, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("limit", [0.5, 100.0])
def test_clipping_returns_the_norm_before_and_scales_down_to_the_limit(limit: float) -> None:
    parameters = [torch.nn.Parameter(torch.zeros(3)), torch.nn.Parameter(torch.zeros(2, 2))]
    parameters[0].grad, parameters[1].grad = torch.full((3,), 2.0), torch.full((2, 2), 1.0)
    before = math.sqrt(3 * 4 + 4)
    assert float(clip(parameters, limit)) == pytest.approx(before)
    after = math.sqrt(sum(float(one.grad.pow(2).sum()) for one in parameters if one.grad is not None))
    assert after == pytest.approx(min(before, limit), rel=1e-4)
