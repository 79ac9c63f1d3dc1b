"""Our way of training, through the trainer's own step, with what the benchmark switches on and off."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import gc
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch.nn.functional import linear

from workloads.train import activation_checkpoint, attention
from workloads.train.anomalies import Anomalies
from workloads.train.checkpoint.checkpoints import Checkpoints
from workloads.train.config import Config, validated
from workloads.train.data.batch import Batch
from workloads.train.data.prepare import Data
from workloads.train.data.state import Loader
from workloads.train.events import Event
from workloads.train.faults import Faults
from workloads.train.model import CausalLM, materialise, skeleton
from workloads.train.optimizer import make_optimizer
from workloads.train.parallel import make_mesh, parallelize
from workloads.train.plan.plan import Plan
from workloads.train.prepare import Prepared
from workloads.train.speed import fp8, fused_linear, head_loss
from workloads.train.trainer import Trainer

from .point import MODELS, Point


class Ours:
    """A prepared run that is given its batches."""

    def __init__(self, point: Point, device: torch.device, world_size: int) -> None:
        config, plan = _config(point, device, world_size), plan_of(point, world_size)
        module = skeleton(MODELS[point.model], attention.choose(device.type))
        module.chunk_rows = point.chunk_rows
        _switch_on(point, module, device)
        parallel = parallelize(
            module,
            # Blocks that recompute are chosen one by one then, before they are compiled.
            plan if point.recompute_blocks is None else _without_recomputation(plan),
            make_mesh(plan, device.type),
            precision=config.precision,
            compile=point.compile,
        )
        materialise(module, device, weights=None, seed=config.train.seed)
        gc.disable()
        self.module = module
        self.features = [*parallel.features, *_features(point, device)]
        self._trainer = Trainer(
            Prepared(
                config=config,
                reporter=_Silent(),
                device=device,
                shape=module.shape,
                plan=plan,
                parallel=parallel,
                optimizer=make_optimizer(module, config.optimizer),
                # A step asks for none of these: it is given its batches and saves nothing.
                data=cast(Data, None),
                loader=cast(Loader, None),
                evaluator=None,
                checkpoints=cast(Checkpoints, None),
                watch=None,
                files={},
                anomalies=Anomalies(config.anomaly),
                faults=Faults(config.fault, rank=0, world_size=world_size),
                resumed=None,
            )
        )

    def step(self, batches: Sequence[Batch]) -> torch.Tensor:
        """Make one optimizer step on batches in host memory; return the mean loss of all ranks."""
        return torch.tensor(self._trainer.step(batches).loss)


def plan_of(point: Point, world_size: int) -> Plan:
    """Return the plan that a point is."""
    rows = point.rows
    return Plan(
        strategy=point.plan_strategy,
        dp_replicate=rows,
        dp_shard=world_size // rows,
        micro_batch=point.micro_batch,
        accumulation=point.accumulation,
        activation_checkpoint=point.activation_checkpoint,
        reshard_after_forward=point.reshard and point.strategy != "unsharded-accumulation",
        prefetch=point.prefetch,
    )


def _without_recomputation(plan: Plan) -> Plan:
    return Plan.from_json({**plan.to_json(), "activation_checkpoint": "none"})


def _switch_on(point: Point, module: CausalLM, device: torch.device) -> None:
    product = linear
    if "fp8" in point.levers:
        fp8.check(device)
        product = fp8.linear
    if {"fused-linear", "fused-qkv", "fp8"} & set(point.levers):
        fused_linear.apply(module, product, gate_up="fused-linear" in point.levers)
    if "head-fp32" in point.levers:
        head_loss.apply(module, compile=point.compile, backend="inductor" if device.type == "cuda" else "aot_eager")
    if device.type == "cuda":
        _tune(point)
    for block in module.blocks[: point.recompute_blocks or 0]:
        activation_checkpoint.apply(block, point.activation_checkpoint)


def _tune(point: Point) -> None:
    """Set what torch holds for the whole process."""
    if "cublaslt" in point.levers:
        torch.backends.cuda.preferred_blas_library("cublaslt")
    settings: Any = __import__("torch._inductor.config", fromlist=["config"])
    settings.coordinate_descent_tuning = "tuned-pointwise" in point.levers
    settings.max_autotune_gemm = "tuned-gemm" in point.levers


def _features(point: Point, device: torch.device) -> list[str]:
    found: list[str] = []
    if "head-fp32" in point.levers:
        inside = head_loss.adds_in_fp32(device.type, torch.bfloat16)
        found.append("the head's gradient is added " + ("inside its product" if inside else "after its product"))
    return found


def _config(point: Point, device: torch.device, world_size: int) -> Config:
    tokens = point.micro_batch * point.accumulation * world_size * point.sequence_length
    values: Mapping[str, Any] = {
        "run": {
            "name": "benchmark",
            "storage_path": "/tmp/benchmark",
            "num_nodes": point.nodes,
            "gpus_per_node": world_size // point.nodes,
            "device": device.type,
        },
        "model": {"name": "benchmark", "weights": "random", "chunk_rows": point.chunk_rows},
        "train": {"steps": 1_000_000, "global_batch_tokens": tokens, "compile": point.compile},
        "data": {"source": "synthetic", "sequence_length": point.sequence_length},
        "precision": {"replica_reduce": point.replica_reduce},
    }
    return validated(dict(values))


class _Silent:
    """A reporter that nobody asks anything of."""

    def emit(self, event: Event) -> None:
        """Drop an event."""

    def stop_asked(self) -> bool:
        """Return that nobody does."""
        return False
