"""Four ways in which others train, from their public recipes, so that a row says "this way of training", not "that product".

sample         AWS's multi-node Ray Train sample for EKS: FSDP1 cut by size (which unties a tied embedding), weights and AdamW in
               bf16, nothing recomputed, no compilation, whole logits. As published: 128 tokens, one sequence.
hugging-face   accelerate's FSDP2 plugin under transformers' Trainer: a group for each block, everything recomputed, whole logits, gradients
               kept whole until the last micro-batch, norm clipped.
titan          torchtitan: matrix products and attention kept and the rest recomputed, each block compiled, FSDP2 with fp32 reduction in
               every micro-batch, the loss in chunks, fused AdamW, norm clipped, no garbage collection inside steps.

Where an origin does something that only costs time (a report to a driver in every step, an fp32 copy of all logits) it is left out.
"""

# torch and transformers type their functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import gc
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    FSDPModule,
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
from torch.utils.checkpoint import create_selective_checkpoint_contexts

from workloads.train.data.batch import IGNORED, Batch

from .point import MODELS, Point

RATE = 2e-5
LARGE = {"qwen2.5-1.5b": 10_000_000, "tiny": 8_000}
"""Parameters above which the sample makes a module an FSDP group of its own."""
_KEPT = ("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu")
_Part = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor, torch.Tensor]]


class Peer:
    """A model, its optimizer, and how a step goes."""

    def __init__(self, point: Point, module: torch.nn.Module, optimizer: torch.optim.Optimizer, *, clips: bool) -> None:
        self.module = module
        self._point = point
        self._optimizer = optimizer
        self._clips = clips
        self._whole = point.recipe == "hugging-face" or point.strategy == "unsharded-accumulation"
        self.deferred = point.recipe != "sample"

    def step(self, batches: Sequence[Batch]) -> torch.Tensor:
        """Make one optimizer step on batches of this device; return the mean loss, on the device. Nothing waits for it."""
        total = torch.zeros((), device=batches[0].input_ids.device)
        for number, batch in enumerate(batches):
            if self.deferred:
                self._before(last=number == len(batches) - 1)
            loss = self._loss(batch) / len(batches)
            loss.backward()
            total += loss.detach()
        if self._clips:
            parameters = [one for one in self.module.parameters() if one.grad is not None]
            norm: Any = torch.nn.utils.get_total_norm([one.grad for one in parameters if one.grad is not None])
            torch.nn.utils.clip_grads_with_norm_(parameters, 1.0, norm.full_tensor())
        self._optimizer.step()
        self._optimizer.zero_grad()
        return total

    def _loss(self, batch: Batch) -> torch.Tensor:
        if self._point.recipe == "titan":
            return self.module(batch.input_ids, batch.labels)
        # transformers shifts the labels itself; its logits die with this frame.
        return self.module(input_ids=batch.input_ids, labels=batch.input_ids).loss

    def _before(self, *, last: bool) -> None:
        root = cast(FSDPModule, self.module)
        if self._whole:
            root.set_requires_gradient_sync(last)
        elif self._point.rows > 1:
            root.set_requires_all_reduce(last)
        if self._point.strategy == "unsharded-accumulation":
            root.set_reshard_after_backward(last)


def build(point: Point, device: torch.device, world_size: int) -> Peer:
    """Return the peer that a point names, with weights from a seed."""
    match point.recipe:
        case "sample":
            return _sample(point, device)
        case "hugging-face":
            return _hugging_face(point, device, world_size)
        case _:
            return _titan(point, device, world_size)


def _model(point: Point, dtype: torch.dtype, device: torch.device) -> Any:
    """Return transformers' own model; buffers of rotary positions stay fp32."""
    from transformers.models.qwen2.configuration_qwen2 import Qwen2Config
    from transformers.models.qwen2.modeling_qwen2 import Qwen2ForCausalLM

    described = {name: value for name, value in MODELS[point.model].items() if name != "model_type"}
    config = Qwen2Config(**cast(dict[str, Any], described))
    setattr(config, "_attn_implementation", "sdpa")  # noqa: B010 -- private by name, and the one place for it
    config.use_cache = False
    torch.manual_seed(0)
    with device:
        module = Qwen2ForCausalLM(config).train()
    for parameter in module.parameters():
        parameter.data = parameter.data.to(dtype)
    return module


def _sample(point: Point, device: torch.device) -> Peer:
    module = FullyShardedDataParallel(
        _model(point, torch.bfloat16, device),
        sharding_strategy=ShardingStrategy.FULL_SHARD if point.reshard else ShardingStrategy.SHARD_GRAD_OP,
        auto_wrap_policy=partial(size_based_auto_wrap_policy, min_num_params=LARGE[point.model]),
        device_id=device,
    )
    return Peer(point, module, torch.optim.AdamW(module.parameters(), lr=RATE), clips=False)


def _hugging_face(point: Point, device: torch.device, world_size: int) -> Peer:
    module = _model(point, torch.float32, device)
    module.model.layers = torch.nn.ModuleList(_recomputing(point, module.model.layers, keep_random_state=True))
    return _sharded(point, module, module.model.layers, _mesh(point, device, world_size), torch.bfloat16)


def _titan(point: Point, device: torch.device, world_size: int) -> Peer:
    compiled = partial(torch.compile, dynamic=False, backend="inductor" if device.type == "cuda" else "aot_eager")
    decoder = _model(point, torch.float32, device).model
    blocks: list[Any] = [compiled(block) for block in _recomputing(point, decoder.layers, keep_random_state=False)]
    decoder.layers = torch.nn.ModuleList(blocks)
    gc.disable()
    module = _TiedHead(decoder, cast(_Part, compiled(_part)))
    return _sharded(point, module, decoder.layers, _mesh(point, device, world_size), torch.float32)


def _recomputing(point: Point, blocks: Any, *, keep_random_state: bool) -> list[Any]:
    if point.activation_checkpoint == "none":
        return list(blocks)
    more: dict[str, Any] = {"preserve_rng_state": keep_random_state}
    if point.activation_checkpoint == "selective":
        aten = torch.ops.aten
        kept = [aten.mm.default, aten.addmm.default]
        kept += [getattr(aten, f"_scaled_dot_product_{kind}").default for kind in _KEPT]
        more["context_fn"] = partial(create_selective_checkpoint_contexts, kept)
    return [checkpoint_wrapper(block, **more) for block in blocks]


def _mesh(point: Point, device: torch.device, world_size: int) -> DeviceMesh:
    if point.rows > 1:
        shape = (point.rows, world_size // point.rows)
        return init_device_mesh(device.type, shape, mesh_dim_names=("dp_replicate", "dp_shard"))
    return init_device_mesh(device.type, (world_size,), mesh_dim_names=("dp_shard",))


def _sharded(point: Point, module: Any, blocks: Any, mesh: DeviceMesh, reduced: torch.dtype) -> Peer:
    """Make each block a group, and what is left (embedding with its head, last norm) another; add fused AdamW."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduced)
    keeps = not point.reshard or point.strategy == "unsharded-accumulation"
    for one in (*blocks, module):
        fully_shard(one, mesh=mesh, mp_policy=policy, reshard_after_forward=False if keeps else None)
    return Peer(point, module, torch.optim.AdamW(module.parameters(), lr=RATE, fused=True), clips=True)


class _TiedHead(torch.nn.Module):
    """A decoder whose embedding is its head too, with the mean loss as output."""

    def __init__(self, decoder: Any, part: _Part) -> None:
        super().__init__()
        self.decoder = decoder
        self._part = part

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = self.decoder(input_ids=input_ids, use_cache=False).last_hidden_state
        return _MeanLoss.apply(  # pyright: ignore[reportReturnType]
            hidden.flatten(0, 1), self.decoder.embed_tokens.weight, labels.flatten(), self._part
        )


def _part(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return one chunk's loss, summed, and its gradients for hidden and weight."""
    logits = (hidden @ weight.t()).float()
    whole = logits.logsumexp(-1, keepdim=True)
    wanted = labels.unsqueeze(-1)
    loss = torch.where(wanted == IGNORED, 0.0, whole - logits.gather(-1, wanted.clamp(min=0))).sum()
    hit = (torch.arange(logits.shape[-1], device=logits.device) == wanted).float()
    slope = torch.where(wanted == IGNORED, 0.0, (logits - whole).exp() - hit).to(hidden.dtype)
    return loss, slope @ weight, slope.t() @ hidden


class _MeanLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, part: _Part
    ) -> torch.Tensor:
        # Chunks of one size, so that one compiled form serves all.
        rows = math.gcd(len(hidden), 4096)
        loss = hidden.new_zeros((), dtype=torch.float32)
        of_hidden = torch.empty_like(hidden)
        of_weight = torch.zeros_like(weight, dtype=torch.float32)
        for start in range(0, len(hidden), rows):
            here = slice(start, start + rows)
            some, hidden_slope, weight_slope = part(hidden[here], weight, labels[here])
            loss += some
            of_hidden[here] = hidden_slope
            of_weight += weight_slope
        ctx.save_for_backward(of_hidden, of_weight)
        ctx.dtype = weight.dtype
        ctx.count = len(labels)
        return loss / len(labels)

    @staticmethod
    def backward(ctx: Any, *outputs: Any) -> Any:
        of_hidden, of_weight = ctx.saved_tensors
        scale = outputs[0] / ctx.count
        return of_hidden * scale.to(of_hidden.dtype), (of_weight * scale).to(ctx.dtype), None, None
