"""From a model on one device to a sharded one: activation checkpointing, then compilation, then FSDP2, in this order.

Weights, optimizer state and sums of gradients are fp32; what is computed, and gathered for it, is `precision.compute`. Each block is
one FSDP group; embedding, last norm and head are the root's, where a tied embedding stays one tensor
(https://github.com/huggingface/accelerate/pull/4171).
"""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

from functools import partial
from typing import Any, cast

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method

from . import activation_checkpoint
from .agreement import gathered
from .errors import UsageError
from .loss import chunk_with_gradients
from .model import CausalLM
from .plan.plan import Plan
from .replicas import ReplicaSum
from .sections import PrecisionConfig

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def make_mesh(plan: Plan, device: str, known: DeviceMesh | None = None) -> DeviceMesh:
    """Return the mesh of a plan over the default process group: ranks of a replica are neighbours, so that shards stay in a node.

    `known` is returned where it is that mesh: another would have communicators, and memory for them, of its own.

    Raises:
        UsageError: the ranks that are there do not fill it, or they have different GPUs.
    """
    world_size = dist.get_world_size()
    if plan.dp_replicate * plan.dp_shard != world_size:
        raise UsageError(
            f"plan: found dp_replicate {plan.dp_replicate} x dp_shard {plan.dp_shard}; "
            f"allowed: a product of {world_size}, the number of ranks"
        )
    _refuse_mixed_cards(device)
    if known is not None and tuple(known.mesh.shape) == (plan.dp_replicate, plan.dp_shard):
        return known
    if plan.dp_replicate == 1:
        return init_device_mesh(device, (plan.dp_shard,), mesh_dim_names=("dp_shard",))
    return init_device_mesh(device, (plan.dp_replicate, plan.dp_shard), mesh_dim_names=("dp_replicate", "dp_shard"))


def _refuse_mixed_cards(device: str) -> None:
    name = torch.cuda.get_device_name() if device == "cuda" else device
    refuse_mixed(gathered(name))


def refuse_mixed(names: list[str]) -> None:
    """Refuse ranks of different cards: all would wait for the slowest, and the plan holds for one kind.

    Raises:
        UsageError: naming how many there are of each.
    """
    kinds = sorted(set(names))
    if len(kinds) > 1:
        counted = ", ".join(f"{names.count(kind)} ranks on {kind} (first: rank {names.index(kind)})" for kind in kinds)
        raise UsageError(f"GPUs: found {counted}; allowed: one kind; use nodes of one instance type")


def parallelize(
    module: CausalLM, plan: Plan, mesh: DeviceMesh, *, precision: PrecisionConfig, compile: bool
) -> "Parallel":
    """Checkpoint, compile and shard `module` in place, on the meta device or any other.

    Raises:
        UsageError: the precision does not go with the plan.
    """
    if problems := precision.problems(plan):
        raise UsageError("\n".join(problems))
    device = mesh.device_type
    for block in module.blocks:
        activation_checkpoint.apply(block, plan.activation_checkpoint)
    if compile:
        # What is compiled is the forward, not the module: FSDP's hooks stay outside, and parameters keep their names.
        # Blocks share their code, so that all of them are one compilation.
        backend = "inductor" if device == "cuda" else "aot_eager"
        for block in module.blocks:
            block.forward = torch.compile(block.forward, fullgraph=True, dynamic=False, backend=backend)
        module.chunk = cast(Any, torch.compile(chunk_with_gradients, fullgraph=True, dynamic=False, backend=backend))
    own_replicas = precision.replica_reduce == "bf16"
    compute, reduce = DTYPES[precision.compute], DTYPES[precision.reduce]
    wrap = partial(
        fully_shard,
        # Without its replicas FSDP leaves the sum over them to `ReplicaSum`.
        mesh=mesh["dp_shard"] if own_replicas else mesh,
        mp_policy=MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=reduce),
    )
    for block in module.blocks:
        wrap(block, reshard_after_forward=plan.reshard_after_forward)
    # The root's weights are needed at both ends of forward and backward: they stay.
    wrap(module, reshard_after_forward=False)
    register_fsdp_forward_method(module, "logits")
    replicas = ReplicaSum(module, mesh["dp_replicate"]) if own_replicas else None
    return Parallel(module, plan, replicas, device)


class Parallel:
    """A sharded model, and when it speaks with the other ranks."""

    def __init__(self, module: CausalLM, plan: Plan, replicas: ReplicaSum | None, device: str) -> None:
        self.module = module
        self.plan = plan
        self.features = _enable(module, plan, device)
        """What of newer torch versions is in use."""
        self._replicas = replicas

    def before(self, *, last: bool) -> None:
        """Say before each micro-batch whether it is the step's last, which sends what the others left out."""
        root = cast(FSDPModule, self.module)
        if self.plan.strategy == "unsharded-accumulation":
            root.set_requires_gradient_sync(last)
            root.set_reshard_after_backward(last)
        elif self._replicas is None and self.plan.dp_replicate > 1:
            root.set_requires_all_reduce(last)
        if self._replicas is not None:
            self._replicas.active = last

    def after(self) -> None:
        """Say after the last backward that the gradients are wanted."""
        if self._replicas is not None:
            self._replicas.wait()


def _enable(module: CausalLM, plan: Plan, device: str) -> list[str]:
    """Prefetch as the plan says, and let reduce-scatter and all-gather overlap where this torch can."""
    blocks = [cast(FSDPModule, block) for block in module.blocks]
    for number, block in enumerate(blocks):
        if ahead := blocks[number + 1 : number + 1 + plan.prefetch]:
            block.set_modules_to_forward_prefetch(ahead)
        if behind := blocks[max(0, number - plan.prefetch) : number][::-1]:
            block.set_modules_to_backward_prefetch(behind)
    used: list[str] = []
    root = cast(Any, module)
    # Both are for a reduce-scatter that is slower than the backward; both came with torch 2.13.
    if device == "cuda" and plan.dp_shard > 1:
        if hasattr(root, "set_reduce_scatter_max_input_buffers"):
            root.set_reduce_scatter_max_input_buffers(2)
            used.append("two reduce-scatter buffers")
        if hasattr(root, "set_separate_reduce_scatter_group"):
            root.set_separate_reduce_scatter_group()
            used.append("a communicator for reduce-scatter")
    return used
