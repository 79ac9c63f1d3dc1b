"""Machines, work and layouts that the tests of the plan share."""

from dataclasses import replace
from typing import Any

from workloads.train.plan.instances import instance, machine_of
from workloads.train.plan.machine import Machine, Work
from workloads.train.plan.plan import Plan
from workloads.train.plan.shapes import SHAPES

QWEN = SHAPES["qwen2.5-1.5b"]
LLAMA = SHAPES["llama-3.1-8b"]
WORK = Work(shape=QWEN, sequence_length=2048, global_batch_tokens=262_144, compiled=True, loss_chunk=1024)
G6 = machine_of(instance("g6.12xlarge"), 2)
HSDP = Plan(
    strategy="hsdp",
    dp_replicate=2,
    dp_shard=4,
    micro_batch=4,
    accumulation=4,
    activation_checkpoint="selective",
    reshard_after_forward=True,
    prefetch=1,
)
FSDP = replace(HSDP, strategy="fsdp", dp_replicate=1, dp_shard=8)
UNSHARDED = replace(FSDP, strategy="unsharded-accumulation", reshard_after_forward=False, prefetch=0)


def machine(**changes: Any) -> Machine:
    return replace(G6, **changes)


def work(**changes: Any) -> Work:
    return replace(WORK, **changes)
