"""What one rank does in the tests of parallel training: a step on its share of given batches, and all gradients as they came out."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from workloads.train import attention
from workloads.train.data.batch import IGNORED, Batch
from workloads.train.model import CausalLM, materialise, skeleton
from workloads.train.model_shape import BUILT_IN
from workloads.train.optimizer import clip
from workloads.train.parallel import Parallel, make_mesh, parallelize
from workloads.train.plan.plan import ActivationCheckpoint, Plan, Strategy
from workloads.train.sections import PrecisionConfig

CPU = torch.device("cpu")
LENGTH, WORDS = 32, 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A way to train the same step."""

    replicate: int = 1
    shard: int = 1
    accumulation: int = 1
    strategy: Strategy = "fsdp"
    activation_checkpoint: ActivationCheckpoint = "none"
    reshard: bool = True
    compile: bool = False
    model: str = "tiny-qwen2"
    chunk_rows: int = 24
    compute: Literal["bf16", "fp32"] = "fp32"
    reduce: Literal["bf16", "fp32"] = "fp32"
    replica_reduce: Literal["bf16", "fp32"] = "fp32"
    weights: Path | None = None

    @property
    def plan(self) -> Plan:
        return Plan(
            strategy=self.strategy,
            dp_replicate=self.replicate,
            dp_shard=self.shard,
            micro_batch=1,
            accumulation=self.accumulation,
            activation_checkpoint=self.activation_checkpoint,
            reshard_after_forward=self.reshard,
            prefetch=1,
            prediction=None,
        )

    @property
    def precision(self) -> PrecisionConfig:
        return PrecisionConfig(compute=self.compute, reduce=self.reduce, replica_reduce=self.replica_reduce)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    loss: float
    tokens: int
    norm: float
    gradients: dict[str, torch.Tensor]


def batches(count: int = 8, seed: int = 3) -> list[Batch]:
    """Return batches of one row: packed documents, padding, prompts without labels, so that each has another number of tokens."""
    generator = torch.Generator().manual_seed(seed)
    made: list[Batch] = []
    for number in (one % 8 for one in range(count)):
        tokens = torch.randint(WORDS, (1, LENGTH + 1), generator=generator)
        cuts = [0, 5 + number, 20, LENGTH - number] if number % 3 else [0]
        positions = torch.cat([torch.arange(b - a) for a, b in zip(cuts, [*cuts[1:], LENGTH], strict=True)])
        labels = tokens[:, 1:].clone()
        labels[0, [cut - 1 for cut in cuts[1:]]] = IGNORED
        labels[0, LENGTH - number :] = IGNORED
        made.append(Batch(tokens[:, :-1].clone(), labels, positions[None]))
    return made


def build(case: Case) -> CausalLM:
    """Return a model on the meta device."""
    module = skeleton(BUILT_IN[case.model], attention.choose("cpu"))
    module.chunk_rows = case.chunk_rows
    return module


def reference(data: Sequence[Batch], model: str = "tiny-qwen2", weights: Path | None = None, seed: int = 11) -> Result:
    """Return the step in one process, in fp32, without FSDP, on logits that are whole and documents that are apart."""
    module = build(Case(model=model))
    materialise(module, CPU, weights=weights, seed=seed)
    total, tokens = torch.zeros(()), 0
    for batch in data:
        for start, end in documents_of(batch):
            logits = module.logits(batch.input_ids[:, start:end], batch.position_ids[:, start:end])
            total = total + torch.nn.functional.cross_entropy(
                logits[0], batch.labels[0, start:end], ignore_index=IGNORED, reduction="sum"
            )
        tokens += batch.num_tokens
    (total / tokens).backward()
    gradients = {name: one.grad.clone() for name, one in module.named_parameters() if one.grad is not None}
    norm = torch.stack([one.norm() for one in gradients.values()]).norm()
    return Result(loss=float(total.detach() / tokens), tokens=tokens, norm=float(norm), gradients=gradients)


def documents_of(batch: Batch) -> list[tuple[int, int]]:
    """Return where documents of a batch of one row begin and end."""
    starts = [number for number, position in enumerate(batch.position_ids[0].tolist()) if position == 0]
    return list(zip(starts, [*starts[1:], batch.input_ids.shape[1]], strict=True))


def sharded(case: Case, seed: int = 11) -> Parallel:
    """Return a model with its weights, sharded over the ranks."""
    module = build(case)
    parallel = parallelize(
        module, case.plan, make_mesh(case.plan, "cpu"), precision=case.precision, compile=case.compile
    )
    materialise(module, CPU, weights=case.weights, seed=seed)
    return parallel


def one_step(rank: int, case: Case, data: Sequence[Batch], seed: int = 11) -> Result:
    """Be a rank: every world_size-th batch is its own."""
    return backwards(rank, sharded(case, seed), case, data)


def backwards(rank: int, parallel: Parallel, case: Case, data: Sequence[Batch]) -> Result:
    """Run the micro-batches of a step, forward and backward."""
    world_size, module = dist.get_world_size(), parallel.module
    mine = data[rank::world_size]
    assert len(mine) == case.accumulation
    counted = torch.tensor(float(sum(batch.num_tokens for batch in mine)))
    dist.all_reduce(counted)
    summed = torch.zeros(())
    for number, batch in enumerate(mine):
        parallel.before(last=number == len(mine) - 1)
        part, tokens = cast(tuple[Any, Any], module(batch.input_ids, batch.position_ids, batch.labels))
        assert int(tokens) == batch.num_tokens
        (part * (world_size / counted)).backward()
        summed += part.detach()
    parallel.after()
    dist.all_reduce(summed)
    gradients = {
        name: (one.grad.full_tensor() if isinstance(one.grad, DTensor) else one.grad).clone()
        for name, one in module.named_parameters()
        if one.grad is not None
    }
    norm = clip(module.parameters(), 1e9)
    return Result(loss=float(summed / counted), tokens=int(counted), norm=float(norm), gradients=gradients)


def local(parameter: torch.Tensor) -> torch.Tensor:
    """Return what this rank holds of a parameter."""
    return (parameter.to_local() if isinstance(parameter, DTensor) else parameter).detach()
