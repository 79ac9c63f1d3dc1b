"""What one row measures: a recipe, its size, its link, and what is switched on."""

import json
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from workloads.train.plan.plan import ActivationCheckpoint, Strategy

Recipe = Literal["ours", "titan", "hugging-face", "sample"]
Lever = Literal["fused-linear", "fused-qkv", "head-fp32", "tuned-pointwise", "tuned-gemm", "cublaslt", "fp8"]

QWEN: Mapping[str, object] = {
    "model_type": "qwen2",
    "vocab_size": 151_936,
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32_768,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    "initializer_range": 0.02,
    "tie_word_embeddings": True,
}
"""https://huggingface.co/Qwen/Qwen2.5-1.5B/blob/main/config.json"""
TINY: Mapping[str, object] = {
    **QWEN,
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
MODELS: Mapping[str, Mapping[str, object]] = {"qwen2.5-1.5b": QWEN, "tiny": TINY}


class Point(BaseModel):
    """One row. Weights are random, tokens too, both from a seed; AdamW at 2e-5, computation in bf16."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, description="what the row is called; one name, one point")
    recipe: Recipe = Field(description="whose way of training it is")
    model: Literal["qwen2.5-1.5b", "tiny"] = Field(default="qwen2.5-1.5b", description="shape of the model")
    sequence_length: int = Field(default=2048, ge=8, description="tokens of a sequence")
    micro_batch: int = Field(default=8, ge=1, description="sequences of a rank in one forward")
    accumulation: int = Field(default=1, ge=1, description="micro-batches of an optimizer step")
    warm_up: int = Field(default=5, ge=1, description="steps before the clock starts")
    steps: int = Field(default=10, ge=1, description="timed steps")
    nodes: int = Field(default=1, ge=1, description="nodes that one host pretends to be, joined by sockets")
    link_gbps: float | None = Field(
        default=None, gt=0, description="Gb/s per direction that leave a pretended node; default: as it comes"
    )
    strategy: Strategy | None = Field(
        default=None, description="default: fsdp; a peer adds replicas or whole gradients to its own way"
    )
    replicas: int | None = Field(
        default=None, ge=1, description="copies of the weights; default: one a node with hsdp, else one over all ranks"
    )
    recompute: ActivationCheckpoint | None = Field(default=None, description="default: as the recipe's origin does")
    recompute_blocks: int | None = Field(
        default=None, ge=0, description="ours: blocks, from the first, that recompute; the others keep all"
    )
    reshard: bool = Field(default=True, description="gathered weights are freed between forward and backward")
    attention: Literal["default", "cudnn", "flash"] = Field(
        default="default", description="kernel that comes first; default: torch's own order"
    )
    prefetch: int = Field(default=1, ge=0, description="ours: blocks gathered ahead")
    chunk_rows: int = Field(default=2048, ge=1, description="ours: tokens whose logits are there at once")
    documents: int = Field(default=1, ge=1, description="ours: documents packed into each sequence")
    replica_reduce: Literal["bf16", "fp32"] = Field(default="fp32", description="ours: all-reduce between replicas")
    compile: bool = Field(default=True, description="ours: blocks are compiled")
    levers: tuple[Lever, ...] = Field(default=(), description="ours: what is switched on")
    profile: bool = Field(default=False, description="trace one more step and say which kernels took how long")
    expected_seconds: float = Field(default=75, gt=0, description="of the whole row, start and compilation included")

    @property
    def key(self) -> str:
        """Return what makes the point: all that changes what is measured."""
        return json.dumps(self.model_dump(mode="json", exclude={"expected_seconds", "profile"}), sort_keys=True)

    @property
    def plan_strategy(self) -> Strategy:
        """Return the strategy with its default."""
        return self.strategy or "fsdp"

    @property
    def rows(self) -> int:
        """Return the number of replicas, with its default."""
        return self.replicas or (self.nodes if self.strategy == "hsdp" else 1)

    @property
    def activation_checkpoint(self) -> ActivationCheckpoint:
        """Return what is recomputed, with the default of the recipe."""
        origins: dict[Recipe, ActivationCheckpoint] = {
            "ours": "selective",
            "titan": "selective",
            "hugging-face": "full",
            "sample": "none",
        }
        return self.recompute or origins[self.recipe]

    def problems(self, world_size: int) -> list[str]:
        """Return what does not go together, one line each."""
        found: list[str] = []
        if world_size % self.nodes:
            found.append(f"{self.name}: nodes: found {self.nodes}; allowed: a divisor of {world_size} ranks; change it")
        if world_size % self.rows or (self.strategy == "hsdp" and self.rows == 1):
            found.append(
                f"{self.name}: replicas: found {self.rows} with {self.plan_strategy}; allowed: a divisor of {world_size} ranks, "
                "above 1 with hsdp; set nodes or replicas"
            )
        if self.link_gbps is not None and self.nodes == 1:
            found.append(f"{self.name}: link_gbps: found {self.link_gbps:g} on one node; allowed: nothing; set nodes")
        if self.recipe != "ours" and (self.levers or self.documents > 1 or self.recompute_blocks is not None):
            found.append(f"{self.name}: levers: found {self.recipe} with ours; allowed: none; remove them")
        if self.recipe == "sample" and self.strategy is not None:
            found.append(f"{self.name}: strategy: found {self.strategy} for the sample; allowed: nothing; remove it")
        if self.sequence_length % self.documents:
            found.append(
                f"{self.name}: documents: found {self.documents}; allowed: a divisor of {self.sequence_length}; change it"
            )
        return found
