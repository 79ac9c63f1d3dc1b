"""Choose the layout: the fastest by prediction of those that fit and did not run out of memory before. Pure."""

import math
from collections.abc import Sequence

from ..errors import TrainingError, UsageError
from .candidates import agrees, candidates
from .config import PlanConfig
from .cost import predict
from .machine import Machine, Work
from .memory import memory_bytes
from .plan import Plan, Prediction
from .refuse import refusal

ALIKE = 0.02
"""Part of a step's time under which two predictions say nothing about which layout is faster."""
_POLICY_HUNGER = {"full": 0, "selective": 1, "none": 2}


def rank(work: Work, machine: Machine, fixed: PlanConfig | None = None) -> list[Plan]:
    """Return the layouts that fit, with predictions, the fastest first.

    Predictions within `ALIKE` of each other, in steps from the fastest, count as alike: then the one that needs the network for less time
    wins, as how much of that stays hidden is what a prediction knows least; then time, less memory and at last the key decide, so that
    every try ranks them in the same order.

    Raises:
        UsageError: the global batch cannot be divided, nothing agrees with what is fixed, or nothing fits; then with the arithmetic and
            the smallest changes that fit.
    """
    every = candidates(work, machine, fixed)
    fitting = [plan for plan in every if memory_bytes(plan, work, machine) <= machine.memory_bytes]
    if not fitting:
        raise UsageError(refusal(every, work, machine, fixed or PlanConfig()))
    predicted = [predict(plan, work, machine) for plan in fitting]
    fastest = min(prediction_of(plan).step_seconds for plan in predicted)
    return sorted(predicted, key=lambda plan: _order(plan, fastest))


def choose(
    work: Work,
    machine: Machine,
    *,
    fixed: PlanConfig | None = None,
    out_of_memory: Sequence[Plan] = (),
    stored: Plan | None = None,
) -> Plan:
    """Return the layout to train with. `out_of_memory` are layouts that were tried and did not fit.

    A stored plan of the same world size and global batch is taken as it is, so that a resumed run adds up its gradients in the same order;
    not where the user fixed something else since, where the cards are smaller now, or where it ran out of memory.

    Raises:
        UsageError: as `rank`.
        TrainingError: every layout that should fit ran out of memory.
    """
    if stored is not None and _still_good(stored, work, machine, fixed or PlanConfig(), out_of_memory):
        return stored
    ranked = rank(work, machine, fixed)
    for plan in ranked:
        if not any(at_least_as_hungry(plan, other) for other in out_of_memory):
            return plan
    raise TrainingError(
        f"plan: found {len(out_of_memory)} layouts that ran out of memory ({', '.join(plan.key for plan in out_of_memory)}), and the other "
        f"{len(ranked)} that should fit need as much; allowed: one that fits; take a shorter sequence, a smaller loss chunk or more nodes"
    )


def at_least_as_hungry(plan: Plan, other: Plan) -> bool:
    """Tell whether a layout keeps no less of anything than another one: where that one does not fit, neither does this."""
    return (
        plan.strategy == other.strategy
        and plan.dp_shard <= other.dp_shard
        and plan.micro_batch >= other.micro_batch
        and _POLICY_HUNGER[plan.activation_checkpoint] >= _POLICY_HUNGER[other.activation_checkpoint]
        and (not plan.reshard_after_forward or other.reshard_after_forward)
        and plan.prefetch >= other.prefetch
    )


def _still_good(stored: Plan, work: Work, machine: Machine, fixed: PlanConfig, marked: Sequence[Plan]) -> bool:
    return (
        stored.world_size == machine.world_size
        and stored.dp_shard % machine.ranks_per_node == 0
        and stored.sequences * work.sequence_length == work.global_batch_tokens
        and agrees(stored, fixed)
        and memory_bytes(stored, work, machine) <= machine.memory_bytes
        and not any(at_least_as_hungry(stored, other) for other in marked)
    )


def _order(plan: Plan, fastest: float) -> tuple[int, float, float, int, str]:
    found = prediction_of(plan)
    slower = math.floor(math.log(found.step_seconds / fastest) / math.log1p(ALIKE))
    return slower, _rounded(found.network_seconds), _rounded(found.step_seconds), found.memory_bytes, plan.key


def _rounded(seconds: float) -> float:
    """Return seconds without the digits in which sums of the same terms differ."""
    return float(f"{seconds:.6g}")


def prediction_of(plan: Plan) -> Prediction:
    """Return the prediction of a plan that has one. Raises ValueError for one without."""
    if plan.prediction is None:
        raise ValueError(f"plan {plan.key}: found no prediction; allowed: a plan that `predict` returned")
    return plan.prediction
