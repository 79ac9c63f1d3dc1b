"""Every layout that a job may have on the machines it got. Pure, and in an order that is the same everywhere."""

from collections.abc import Iterator

from ..errors import UsageError
from .config import PlanConfig
from .machine import Machine, Work
from .plan import ActivationCheckpoint, Plan, Strategy

POLICIES: tuple[ActivationCheckpoint, ...] = ("none", "selective", "full")


def check_batch(work: Work, world_size: int) -> int:
    """Return the sequences of one rank in one optimizer step.

    Raises:
        UsageError: the global batch is no whole number of sequences for each rank. It is never rounded: it is part of the experiment.
    """
    unit = work.sequence_length * world_size
    if work.global_batch_tokens % unit == 0:
        return work.global_batch_tokens // unit
    below = work.global_batch_tokens // unit * unit
    nearest = " or ".join(f"{value}" for value in (below, below + unit) if value)
    raise UsageError(
        f"global_batch_tokens: found {work.global_batch_tokens}; allowed: a multiple of {unit}, which is {world_size} ranks x "
        f"{work.sequence_length} tokens of a sequence; set {nearest}"
    )


def meshes(machine: Machine) -> tuple[tuple[int, int], ...]:
    """Return (dp_replicate, dp_shard) of every mesh whose rows are whole nodes, small rows first."""
    nodes, inside = machine.num_nodes, machine.ranks_per_node
    return tuple((nodes // row, row * inside) for row in range(1, nodes + 1) if nodes % row == 0)


def candidates(work: Work, machine: Machine, fixed: PlanConfig | None = None) -> list[Plan]:
    """Return the layouts, without predictions, that leave the global batch as it is and agree with what the user fixed.

    Raises:
        UsageError: the global batch cannot be divided, or nothing agrees with what is fixed.
    """
    pins = fixed or PlanConfig()
    sequences = check_batch(work, machine.world_size)
    found = [plan for plan in _all(sequences, machine) if agrees(plan, pins)]
    if not found:
        raise UsageError(_nothing_agrees(sequences, machine, pins))
    return found


def agrees(plan: Plan, pins: PlanConfig) -> bool:
    """Tell whether a layout has all that the user fixed. Without sharding there is nothing to gather ahead."""
    return all(
        getattr(plan, key) == value or (key == "prefetch" and plan.dp_shard == 1) for key, value in pins.fixed.items()
    )


def _all(sequences: int, machine: Machine) -> Iterator[Plan]:
    for micro_batch in (size for size in range(1, sequences + 1) if sequences % size == 0):
        for rows, shard in meshes(machine):
            for strategy in _strategies(rows, shard, sequences // micro_batch):
                for policy in POLICIES:
                    for reshard in (False,) if strategy == "unsharded-accumulation" else (False, True):
                        # FSDP's own order is what is left where the gathered block more does not fit.
                        for prefetch in (0,) if shard == 1 or strategy == "unsharded-accumulation" else (1, 0, 2):
                            yield Plan(
                                strategy=strategy,
                                dp_replicate=rows,
                                dp_shard=shard,
                                micro_batch=micro_batch,
                                accumulation=sequences // micro_batch,
                                activation_checkpoint=policy,
                                reshard_after_forward=reshard,
                                prefetch=prefetch,
                            )


def _strategies(rows: int, shard: int, accumulation: int) -> tuple[Strategy, ...]:
    sharded: Strategy = "fsdp" if rows == 1 else "hsdp"
    # With one micro-batch a step, or one rank a row, there is nothing to keep the weights for.
    return (sharded, "unsharded-accumulation") if accumulation > 1 and shard > 1 else (sharded,)


def _nothing_agrees(sequences: int, machine: Machine, pins: PlanConfig) -> str:
    if pins.micro_batch is not None and sequences % pins.micro_batch:
        allowed = ", ".join(str(size) for size in range(1, sequences + 1) if sequences % size == 0)
        return (
            f"plan.micro_batch: found {pins.micro_batch}; allowed: {allowed}, as the global batch gives each of {machine.world_size} ranks "
            f"{sequences} sequences a step; set one of these, or leave it out"
        )
    if pins.strategy == "hsdp" and machine.num_nodes == 1:
        return "plan.strategy: found hsdp; allowed: fsdp on one node, where there is no second row of ranks to replicate over; set fsdp"
    wanted = ", ".join(f"{key} {value}" for key, value in pins.fixed.items())
    return f"plan: found {wanted}; allowed: what one layout of {machine.world_size} ranks can have together; leave one of them out"
