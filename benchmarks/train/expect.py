"""What the plan expects of a point on the machine as it was measured, and what it would have chosen."""

from dataclasses import replace
from typing import Final

from workloads.train.errors import TrainingError
from workloads.train.model_shape import shape_of
from workloads.train.plan.choose import choose, prediction_of
from workloads.train.plan.config import PlanConfig
from workloads.train.plan.cost import predict
from workloads.train.plan.hardware import card_of
from workloads.train.plan.instances import (
    CROSS_NODE_LATENCY,
    KERNEL_EFFICIENCY,
    MICRO_BATCH_SECONDS,
    NVLINK_LATENCY,
    STEP_SECONDS,
)
from workloads.train.plan.machine import Machine, Work

from .ours import plan_of
from .point import MODELS, Point

_ALONE: Final = 1e12
"""Bytes/s of a link that nothing is sent over."""


def work_of(point: Point, world_size: int) -> Work:
    """Return what a point asks for."""
    return Work(
        shape=shape_of(MODELS[point.model]),
        sequence_length=point.sequence_length,
        global_batch_tokens=point.micro_batch * point.accumulation * world_size * point.sequence_length,
        compiled=point.compile,
        loss_chunk=point.chunk_rows,
        row_gradient_bytes=2 if point.recipe == "hugging-face" else 4,
        all_reduce_gradient_bytes=2 if point.replica_reduce == "bf16" else 4,
    )


def machine_of(
    point: Point,
    world_size: int,
    *,
    device_name: str,
    gemm: float,
    memory_bytes: int,
    link_gbps: float | None,
    in_node_gbps: float | None,
) -> Machine:
    """Return the machine as the row found it. Rates are those measured; latencies and what is fixed, those of the plan."""
    card = card_of(device_name)
    per_node = world_size // point.nodes
    inside = in_node_gbps if point.nodes > 1 else link_gbps
    return Machine(
        num_nodes=point.nodes,
        ranks_per_node=per_node,
        gemm_flops=gemm,
        kernel_efficiency=KERNEL_EFFICIENCY,
        peak_flops=card.peak_flops,
        memory_bytes=memory_bytes,
        memory_bandwidth=card.memory_bandwidth,
        in_node_bandwidth=(inside * 1e9 / 8 if inside else _ALONE) if per_node > 1 else None,
        cross_node_bandwidth=link_gbps * 1e9 / 8 if point.nodes > 1 and link_gbps else None,
        in_node_latency=NVLINK_LATENCY,
        cross_node_latency=CROSS_NODE_LATENCY,
        step_seconds=STEP_SECONDS,
        micro_batch_seconds=MICRO_BATCH_SECONDS,
    )


def expected(point: Point, world_size: int, machine: Machine) -> dict[str, object]:
    """Return the prediction for a point, and the strategy that the plan would choose for its micro-batch."""
    work = work_of(point, world_size)
    found = prediction_of(predict(plan_of(point, world_size), work, machine))
    try:
        chosen = choose(
            replace(work, compiled=True), machine, fixed=PlanConfig.model_validate({"micro_batch": point.micro_batch})
        ).key
    except TrainingError as error:
        chosen = str(error).splitlines()[0]
    return {
        "step_seconds": found.step_seconds,
        "tokens_per_second": found.tokens_per_second,
        "memory_bytes": found.memory_bytes,
        "network_bytes": found.network_bytes,
        "terms": {term.name: round(term.value, 5) for term in found.time},
        "chosen": chosen,
    }
