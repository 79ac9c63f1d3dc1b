"""Bytes of one rank at its peak, term by term. Pure.

Weights, optimizer state and gradient sums are fp32, computation is bf16: 4 + 8 + 4 bytes per parameter, over the ranks that share them, and
2 for a gathered weight. Bytes per token of activations are counted from the tensors that autograd keeps; for Qwen2.5-1.5B they come to
103.4 kB per block without compilation (103.5 measured), 73 compiled, 49 with selective and 3 with full checkpointing. Without the reserve
for fragmentation the sum was within 2 % of the peak that torch reported on one H200 (66 to 101 GB, three layouts).
"""

from ..model_shape import ModelShape
from .machine import Machine, Work
from .plan import ActivationCheckpoint, Plan, Term

FP32, BF16 = 4, 2
CONTEXT_BYTES = 1_000_000_000
"""CUDA context, cuBLAS workspaces and two NCCL communicators; assumed."""
FRAGMENTATION = 0.06
"""Part of a card that the allocator cannot use, with expandable segments; assumed."""
EAGER_LOGIT_BYTES, COMPILED_LOGIT_BYTES = 12, 7
"""Per logit of a chunk: bf16 and fp32 logits, softmax and its gradient, bf16 gradient; a compiled loss fuses some."""
CPU_CONTEXT_BYTES = 500_000_000
"""A Python process with torch; assumed."""


def block_activation_bytes(shape: ModelShape, policy: ActivationCheckpoint, *, compiled: bool) -> int:
    """Return what one block keeps of one token for its backward pass."""
    hidden, query = shape.hidden_size, shape.num_heads * shape.head_dim
    key_value, inner = shape.num_kv_heads * shape.head_dim, shape.intermediate_size
    if policy == "full":
        return BF16 * hidden
    if policy == "selective":
        # Block input, results of QKV, attention and its projection, gate and up; norms and SwiGLU are computed again.
        return BF16 * (2 * hidden + 2 * query + 2 * key_value + 2 * inner)
    fused = BF16 * (4 * hidden + 2 * query + 2 * key_value + 3 * inner)
    # Without fusion the activation of the gate is kept too, and both norms keep an fp32 copy of their input.
    return fused if compiled else fused + BF16 * inner + 2 * FP32 * hidden


def root_parameters(shape: ModelShape) -> int:
    """Return the parameters of the root group, embedding, norm and head, which is gathered and reduced as one."""
    return shape.num_parameters - shape.num_layers * shape.layer_parameters


def memory_terms(plan: Plan, work: Work, machine: Machine) -> tuple[Term, ...]:
    """Return the peak of one rank, in bytes, as terms that add up."""
    shape, shard = work.shape, plan.dp_shard
    params, root, layer = shape.num_parameters, root_parameters(shape), shape.layer_parameters
    tokens = plan.micro_batch * work.sequence_length
    on_card = machine.peak_flops is not None
    logit = COMPILED_LOGIT_BYTES if work.compiled else EAGER_LOGIT_BYTES
    chunk = min(work.loss_chunk, tokens) * shape.vocab_size * logit
    gathered = (
        params
        if plan.strategy == "unsharded-accumulation" or not plan.reshard_after_forward
        else min(params, root + (1 + plan.prefetch) * layer)
    )
    kept = block_activation_bytes(shape, plan.activation_checkpoint, compiled=work.compiled)
    every = block_activation_bytes(shape, "none", compiled=work.compiled)
    # While one block is in its backward pass: what it computes again, gradients of its widest tensors, and its gradient on the way.
    backward = tokens * (every - kept + BF16 * 3 * shape.intermediate_size) + (BF16 + FP32) * layer
    partial = 0
    if plan.strategy == "unsharded-accumulation":
        partial = FP32 * params
    terms = [
        Term(name="parameters", value=FP32 * params / shard, why=f"4 B x {params:,} / {shard}"),
        Term(name="Adam moments", value=2 * FP32 * params / shard, why=f"8 B x {params:,} / {shard}"),
        Term(name="gradient sums", value=FP32 * params / shard, why=_sums(plan, params)),
        Term(name="unreduced gradients", value=partial, why=_unreduced(plan, params)),
        Term(name="gathered weights", value=BF16 * gathered, why=_gathered(plan, gathered)),
        Term(
            name="activations",
            value=tokens * (kept * shape.num_layers + 4 * BF16 * shape.hidden_size),
            why=f"{tokens:,} tokens x ({kept:,} B x {shape.num_layers} blocks + {4 * BF16 * shape.hidden_size:,} B at the head); "
            f"{plan.activation_checkpoint} checkpointing",
        ),
        Term(name="root gradient", value=BF16 * root, why=f"2 B x {root:,}, from the loss to the end of backward"),
        _transient(chunk, backward, work, tokens),
        Term(
            name="context",
            value=CONTEXT_BYTES if on_card else CPU_CONTEXT_BYTES,
            why="CUDA context, workspaces, communicators; assumed" if on_card else "process with torch; assumed",
        ),
    ]
    if on_card:
        terms.append(
            Term(
                name="fragmentation",
                value=FRAGMENTATION * machine.memory_bytes,
                why=f"{FRAGMENTATION:.0%} of the card; assumed",
            )
        )
    if plan.dp_replicate > 1 and work.all_reduce_gradient_bytes < FP32:
        narrow = work.all_reduce_gradient_bytes
        terms.append(
            Term(
                name="all-reduce copies",
                value=narrow * params / shard,
                why=f"{narrow} B x {params:,} / {shard}, beside the fp32 sums",
            )
        )
    # At the end of backward the activations are gone and the root's gradient is reduced: fp32 input beside the bf16 gradient. It only
    # counts where it is more than what was freed.
    reduced = FP32 * root - sum(
        term.value for term in terms if term.name in ("activations", "chunk of logits", "backward of a block")
    )
    if reduced > 0:
        terms.append(Term(name="root reduction", value=reduced, why=f"4 B x {root:,}, beyond the freed activations"))
    return tuple(terms)


def memory_bytes(plan: Plan, work: Work, machine: Machine) -> int:
    """Return the sum of `memory_terms`."""
    return round(sum(term.value for term in memory_terms(plan, work, machine)))


def _transient(chunk: int, backward: int, work: Work, tokens: int) -> Term:
    """Return the larger of two that follow each other."""
    if chunk >= backward:
        rows = min(work.loss_chunk, tokens)
        return Term(
            name="chunk of logits",
            value=chunk,
            why=f"{rows:,} rows x {work.shape.vocab_size:,} x {chunk // (rows * work.shape.vocab_size)} B",
        )
    return Term(
        name="backward of a block",
        value=backward,
        why="recomputed tensors, gradients of the MLP, the block's own gradient",
    )


def _sums(plan: Plan, params: int) -> str:
    where = "partial sums until the last micro-batch" if plan.dp_replicate > 1 and plan.accumulation > 1 else ".grad"
    return f"4 B x {params:,} / {plan.dp_shard}; {where}"


def _unreduced(plan: Plan, params: int) -> str:
    if plan.strategy == "unsharded-accumulation":
        return f"4 B x {params:,}, until the last micro-batch"
    return "reduced in every micro-batch"


def _gathered(plan: Plan, gathered: int) -> str:
    if plan.strategy == "unsharded-accumulation":
        return f"2 B x {gathered:,}; all, through the whole step"
    if not plan.reshard_after_forward:
        return f"2 B x {gathered:,}; all, from forward to backward"
    return f"2 B x {gathered:,}; root and {1 + plan.prefetch} blocks"
