"""The sections of a run's configuration that belong to no package of their own. Light: the driver reads them without torch."""

import math
import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from .plan.plan import Plan

_STORAGE = r"^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?|/.*)$"
_POINT = re.compile(r"after-step-[1-9][0-9]*|between-shard-and-marker|between-marker-and-prune")


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RunConfig(_Section):
    """Which run this is, and on what it runs."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$",
        description="name of the run; a run of the same name goes on from its newest checkpoint",
    )
    storage_path: str = Field(
        pattern=_STORAGE,
        description="s3://BUCKET/PREFIX or an absolute path that all nodes see; checkpoints go below it and the run's name",
    )
    num_nodes: int = Field(ge=1, description="nodes, each one Ray worker; torchrun says it by itself")
    gpus_per_node: int = Field(ge=1, description="GPUs of each Ray worker; torchrun says it by itself")
    ranks_per_node: int | None = Field(
        default=None, ge=1, description="training processes on each node; default: one for each GPU"
    )
    device: Literal["cuda", "cpu"] = Field(
        default="cuda", description="cpu is for rehearsals; it still takes the nodes' GPUs out of Ray's count"
    )
    record_path: str | None = Field(
        default=None,
        pattern=_STORAGE,
        description="where the run's record and transport report go, below it and the run's name; default: none is written",
    )
    max_restarts: int = Field(
        default=3, ge=0, description="how often a lost process is replaced before the run fails; Ray only"
    )

    @property
    def ranks(self) -> int:
        """Return the training processes of one node."""
        return self.ranks_per_node or self.gpus_per_node

    @property
    def world_size(self) -> int:
        """Return the number of ranks."""
        return self.num_nodes * self.ranks

    @property
    def storage_uri(self) -> str:
        """Return where this run's checkpoints lie."""
        return f"{self.storage_path.rstrip('/')}/{self.name}"

    @property
    def record_uri(self) -> str | None:
        """Return where this run's record lies, None when none is written."""
        return f"{self.record_path.rstrip('/')}/{self.name}" if self.record_path else None

    def problems(self) -> list[str]:
        """Return what does not go together."""
        if self.gpus_per_node % self.ranks:
            return [
                f"run.ranks_per_node: found {self.ranks}; allowed: a divisor of run.gpus_per_node, {self.gpus_per_node}; set it so"
            ]
        if self.device == "cuda" and self.ranks != self.gpus_per_node:
            return [
                f"run.ranks_per_node: found {self.ranks}; allowed: {self.gpus_per_node}, as run.gpus_per_node: "
                "with run.device cuda a rank drives one GPU; leave it out"
            ]
        return []


class ModelConfig(_Section):
    """What is trained."""

    name: str = Field(
        min_length=1,
        description="Hugging Face id, absolute path, s3://BUCKET/PREFIX, or one that comes with the program: tiny-qwen2, tiny-llama",
    )
    revision: str = Field(default="main", min_length=1, description="branch, tag or commit of a Hugging Face id")
    weights: Literal["pretrained", "random"] = Field(
        default="pretrained",
        description="random: from train.seed, with the configuration alone; models that come with the program are random",
    )
    chunk_rows: int = Field(default=2048, ge=1, description="tokens whose logits are there at once; below 1,024 slow")


class TrainConfig(_Section):
    """How long and on how much."""

    steps: int = Field(default=100, ge=1, description="optimizer steps of the whole run")
    global_batch_tokens: int | None = Field(
        default=None,
        ge=1,
        description="tokens of one optimizer step, of all ranks: a multiple of sequence length times ranks; default: 8 sequences a rank",
    )
    seed: int = Field(
        default=7, ge=0, lt=1 << 31, description="of random weights and of all generators of random numbers"
    )
    compile: bool | None = Field(default=None, description="compile each block; default: on CUDA")
    deterministic: bool = Field(
        default=False, description="the same numbers, bit for bit, whenever the world has the same size; slower on CUDA"
    )
    gc_every: int = Field(default=50, ge=1, description="steps between two garbage collections, on all ranks at once")
    log_every: int = Field(default=1, ge=1, description="steps between two step events")


class OptimizerConfig(_Section):
    """AdamW and its schedule."""

    learning_rate: float = Field(
        default=2e-5, gt=0, lt=math.inf, description="highest learning rate, reached after the warm-up"
    )
    warmup_steps: int = Field(default=0, ge=0, description="steps over which the learning rate rises linearly")
    final_fraction: float = Field(
        default=0.1, ge=0, le=1, description="part of the learning rate that the cosine ends at"
    )
    beta1: float = Field(default=0.9, ge=0, lt=1, description="decay of the mean of the gradients")
    beta2: float = Field(default=0.95, ge=0, lt=1, description="decay of the mean of their squares")
    epsilon: float = Field(default=1e-8, gt=0, description="added to the square root of the latter")
    weight_decay: float = Field(default=0.1, ge=0, description="decay of matrices; norms and biases have none")
    clip_norm: float = Field(default=1.0, gt=0, description="gradients of a larger global norm are scaled down to it")


class PrecisionConfig(_Section):
    """In what numbers are computed and sent. Weights, optimizer state and sums of gradients are always fp32."""

    compute: Literal["bf16", "fp32"] = Field(
        default="bf16", description="forward and backward, and weights as they are gathered"
    )
    reduce: Literal["bf16", "fp32"] = Field(
        default="fp32", description="gradients in the reduce-scatter of every micro-batch"
    )
    replica_reduce: Literal["bf16", "fp32"] = Field(
        default="fp32",
        description="sums of gradients in the all-reduce between replicas, once a step; bf16 halves its bytes",
    )

    def problems(self, plan: Plan) -> list[str]:
        """Return what does not go together with a plan."""
        found: list[str] = []
        if self.reduce == "bf16" and plan.accumulation > 1 and plan.strategy != "fsdp":
            found.append(
                f"precision.reduce: found bf16 with strategy {plan.strategy} and {plan.accumulation} micro-batches, which it would "
                "sum in bf16; allowed: fp32; set precision.replica_reduce to bf16 for fewer bytes between nodes"
            )
        if self.replica_reduce == "bf16" and plan.dp_replicate == 1:
            found.append(
                "precision.replica_reduce: found bf16 with a plan of one replica, which sends nothing; allowed: fp32; leave it out"
            )
        if self.replica_reduce == "bf16" and plan.strategy == "unsharded-accumulation":
            found.append(
                "precision.replica_reduce: found bf16 with strategy unsharded-accumulation; allowed: fp32; set plan.strategy to hsdp"
            )
        return found


class AnomalyConfig(_Section):
    """Steps whose gradients are not to be trusted. All ranks decide alike, on the norm that they share."""

    action: Literal["stop", "skip"] = Field(
        default="stop",
        description="stop: end the run, naming step and batch. skip: leave the weights as they are, and count it",
    )
    sigma: float | None = Field(
        default=None,
        gt=0,
        description="a norm so many standard deviations above the mean is one too; default: only what is no number",
    )
    window: int = Field(
        default=100, ge=10, description="norms that mean and deviation are of; until there are ten none is judged"
    )
    most_skipped: int = Field(default=10, ge=1, description="skipped steps in a row that end the run")


class EvaluateConfig(_Section):
    """What the model is asked before and after training, beside the loss of the sequences of `data.held_out`."""

    questions: str | None = Field(
        default=None,
        description="A .jsonl file of multiple-choice questions: {question, choices, answer}, answer being the text of a choice or its "
        "number from 0 on. Default: none are asked.",
    )

    def problems(self) -> list[str]:
        """Return what is wrong with the section, one line each."""
        if self.questions is None or self.questions.startswith("/"):
            return []
        return [f"evaluate.questions: found {self.questions!r}; allowed: an absolute path; write the path in full"]


class FaultConfig(_Section):
    """A fault on purpose, for drills and tests."""

    point: str | None = Field(
        default=None,
        description="after-step-K, between-shard-and-marker or between-marker-and-prune; the environment's TRAIN_FAULT says the same",
    )
    action: Literal["kill", "raise"] = Field(
        default="raise", description="kill: SIGKILL, which Ray answers with another try"
    )
    rank: int | None = Field(
        default=None, ge=0, description="rank that it happens to; default: the last, or 0 where the point is its alone"
    )
    once_file: str | None = Field(
        default=None,
        pattern="^/",
        description="a path: only where it does not exist yet, and then it does; for faults that a try survives",
    )

    def problems(self) -> list[str]:
        """Return what is wrong with the point."""
        if self.point is None or _POINT.fullmatch(self.point):
            return []
        return [
            f"fault.point: found {self.point!r}; allowed: after-step-K with K of at least 1, between-shard-and-marker "
            "or between-marker-and-prune; set it so"
        ]
