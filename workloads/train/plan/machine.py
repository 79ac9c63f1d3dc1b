"""What a prediction knows of the machines and of the job, and where it knows it from."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..model_shape import ModelShape

Mark: TypeAlias = Literal["measured", "datasheet", "assumed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One number that goes into a prediction."""

    name: str
    value: str
    """With its unit."""
    mark: Mark
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Nodes that are all alike, with one rank a GPU. Bandwidths are those of NCCL's bus bandwidth: what one link carries, per direction."""

    num_nodes: int
    ranks_per_node: int
    gemm_flops: float
    """FLOP/s of a large matrix product on one rank, in the type that the model computes in."""
    kernel_efficiency: float
    """Part of `gemm_flops` that a whole training step reaches while it computes."""
    peak_flops: float | None
    """Dense bf16 peak of the datasheet; None where there is none, as on a CPU."""
    memory_bytes: int
    """Of one rank."""
    memory_bandwidth: float
    """Bytes/s of one rank's memory."""
    in_node_bandwidth: float | None
    """Bytes/s per direction of one rank in collectives inside a node; None with one rank a node."""
    cross_node_bandwidth: float | None
    """Bytes/s per direction of one node, all its network cards together; None with one node."""
    in_node_latency: float = 0.0
    """Seconds of one hop."""
    cross_node_latency: float = 0.0
    """Seconds of one hop."""
    step_seconds: float = 0.0
    """What an optimizer step takes on the host and in small collectives, hidden by nothing."""
    micro_batch_seconds: float = 0.0
    """What a micro-batch takes however small it is: launches, small kernels."""
    facts: tuple[Fact, ...] = ()
    """The numbers above for a reader, with where they come from."""

    @property
    def world_size(self) -> int:
        """Return the number of ranks."""
        return self.num_nodes * self.ranks_per_node


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the user asks for. A plan divides it and never changes it."""

    shape: ModelShape
    sequence_length: int
    global_batch_tokens: int
    """Tokens of one optimizer step, of all ranks."""
    compiled: bool
    """Blocks are compiled, so that activations between fused operations are not kept."""
    loss_chunk: int
    """Rows of logits that are alive at a time."""
    row_gradient_bytes: int = 4
    """Of one gradient in the reduce-scatter of a row: 4 for fp32, 2 for bf16."""
    all_reduce_gradient_bytes: int = 4
    """Of one gradient in the all-reduce across rows: 4 for fp32, 2 for a bf16 copy of the sums."""
