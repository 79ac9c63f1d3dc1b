"""Seconds of one optimizer step, term by term. Pure.

With P parameters, n nodes, S ranks in a row of the mesh that spans k nodes and R = n/k rows, ring collectives carry over each link:
gather (S-1)/S * 2P, reduce-scatter (S-1)/S * 4P (fp32), all-reduce 2(R-1)/R * 4P/k of a node, whatever its number of GPUs. A row inside
a node uses the node's links; one that spans nodes is as fast as the slower of those and the node's network. Row traffic of a micro-batch
hides behind its compute; the all-reduce of a step behind the backward pass of the last micro-batch, but for the part of the root group,
whose gradient (embedding) is complete last. Row traffic of the root group has such ends too.

The all-reduce has compute alone to hide behind, not time spent waiting for row traffic, as both pass the host where GPUs have no links of
their own. So where row traffic is the slower, a faster card leaves a little more of the all-reduce open and gains nothing: a bound from
above that matters for no layout that would be chosen.
"""

import math
from dataclasses import dataclass, replace

from .flops import BACKWARD_PART, FORWARD_PART, flops_per_token, recomputed_part
from .machine import Machine, Work
from .memory import BF16, memory_terms, root_parameters
from .plan import Plan, Prediction, Term

SELECTIVE_RECOMPUTATION = 0.03
"""Norms and SwiGLU again: their bytes over the memory's bandwidth, as a part of the compute time; assumed."""
OPTIMIZER_BYTES = 28
"""Of one parameter in fused AdamW: reads weight, gradient and both moments, writes all but the gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What the layout sends over one link, in bytes, and how long each part would take if nothing hid it."""

    gather_bytes: float
    """Of one rank in one gather of all weights."""
    reduce_bytes: float
    """Of one rank in one reduce-scatter of all gradients."""
    all_reduce_bytes: float
    """Of one node in one all-reduce of all gradient shards."""
    gather_seconds: float
    reduce_seconds: float
    all_reduce_seconds: float
    nodes_of_row: int


def traffic(plan: Plan, work: Work, machine: Machine) -> Traffic:
    """Return bytes and seconds of the collectives. Raises ValueError for a link that is used and has no bandwidth."""
    shard, params, groups = plan.dp_shard, work.shape.num_parameters, work.shape.num_layers + 1
    spans = max(1, shard // machine.ranks_per_node)
    share = (shard - 1) / shard
    gather, reduced = share * BF16 * params, share * work.row_gradient_bytes * params
    row = _row_bandwidth(machine, spans) if shard > 1 else math.inf
    # Every step of a ring waits for its slowest hop.
    hop = machine.cross_node_latency if spans > 1 else machine.in_node_latency
    ring = groups * (shard - 1) * hop
    rows = plan.dp_replicate
    sent = 2 * (rows - 1) / rows * work.all_reduce_gradient_bytes * params / spans
    across = _needed(machine.cross_node_bandwidth, "cross_node_bandwidth") if rows > 1 else math.inf
    # NCCL takes its trees where latency counts: twice the depth.
    tree = groups * 2 * math.ceil(math.log2(rows)) * machine.cross_node_latency
    return Traffic(
        gather_bytes=gather,
        reduce_bytes=reduced,
        all_reduce_bytes=sent,
        gather_seconds=gather / row + ring,
        reduce_seconds=reduced / row + ring,
        all_reduce_seconds=sent / across + tree,
        nodes_of_row=spans,
    )


def gathers_of_micro_batch(plan: Plan) -> int:
    """Return how often a micro-batch gathers the weights; 0 for the strategy that keeps them, which gathers once a step."""
    if plan.strategy == "unsharded-accumulation":
        return 0
    return 2 if plan.reshard_after_forward else 1


def network(plan: Plan, work: Work, machine: Machine) -> tuple[float, float]:
    """Return what leaves one node in one optimizer step, which is what comes in: bytes, and seconds if nothing hid them."""
    link = traffic(plan, work, machine)
    if link.nodes_of_row == 1:
        return link.all_reduce_bytes, link.all_reduce_seconds
    once = plan.strategy == "unsharded-accumulation"
    gathers = 1 if once else plan.accumulation * gathers_of_micro_batch(plan)
    reduces = 1 if once else plan.accumulation
    return (
        gathers * link.gather_bytes + reduces * link.reduce_bytes + link.all_reduce_bytes,
        gathers * link.gather_seconds + reduces * link.reduce_seconds + link.all_reduce_seconds,
    )


def time_terms(plan: Plan, work: Work, machine: Machine) -> tuple[Term, ...]:
    """Return the seconds of one optimizer step as terms that add up."""
    shape, times = work.shape, plan.accumulation
    link = traffic(plan, work, machine)
    tokens = plan.micro_batch * work.sequence_length
    flops = tokens * flops_per_token(shape, work.sequence_length)
    model = flops / (machine.gemm_flops * machine.kernel_efficiency)
    again = model * _recomputed(plan, work)
    once = plan.strategy == "unsharded-accumulation"
    # A gather ends in a copy out of its buffer, bf16 read and written, in the stream that computes.
    copies = 2 * BF16 * shape.num_parameters / machine.memory_bandwidth
    copied = copies if once else times * gathers_of_micro_batch(plan) * copies
    compute = model + again + copied / times
    root = root_parameters(shape) / shape.num_parameters
    row, ends, row_why = _exposed_row(plan, link, compute, root)
    reduce_window = BACKWARD_PART * compute
    rate = f"{machine.gemm_flops / 1e12:.4g} TFLOP/s x {machine.kernel_efficiency:.0%}"
    terms = [
        Term(name="model compute", value=times * model, why=f"{times} x {flops / 1e12:.4g} TFLOP / ({rate})"),
        Term(
            name="recomputation",
            value=times * again,
            why=f"{_recomputed(plan, work):.1%} of it: {plan.activation_checkpoint}",
        ),
        Term(name="weight copies", value=copied, why=f"{copies * 1e3:.3g} ms a gather"),
        Term(name="row traffic, exposed", value=row, why=row_why),
        Term(
            name="row traffic, root's ends",
            value=ends,
            why="the first gather of a forward and the last reduction of a step have nothing to hide behind",
        ),
        Term(
            name="all-reduce, exposed",
            value=max(0.0, link.all_reduce_seconds - reduce_window),
            why=f"{link.all_reduce_bytes / 1e9:.3g} GB in {link.all_reduce_seconds:.3g} s behind {reduce_window:.3g} s of backward",
        ),
        Term(
            name="all-reduce, root's tail",
            value=link.all_reduce_seconds * root,
            why=f"{root:.1%} of the gradient is complete last",
        ),
        Term(
            name="optimizer",
            value=OPTIMIZER_BYTES * shape.num_parameters / plan.dp_shard / machine.memory_bandwidth,
            why=f"{OPTIMIZER_BYTES} B x {shape.num_parameters:,} / {plan.dp_shard} / {machine.memory_bandwidth / 1e9:.4g} GB/s",
        ),
        Term(
            name="fixed",
            value=machine.step_seconds + times * machine.micro_batch_seconds,
            why=f"{machine.step_seconds * 1e3:.3g} ms a step + {times} x {machine.micro_batch_seconds * 1e3:.3g} ms",
        ),
    ]
    return tuple(terms)


def predict(plan: Plan, work: Work, machine: Machine) -> Plan:
    """Return the plan with what it should cost on these machines."""
    time, memory = time_terms(plan, work, machine), memory_terms(plan, work, machine)
    sent, sending = network(plan, work, machine)
    seconds = sum(term.value for term in time)
    rate = work.global_batch_tokens / seconds
    flops = rate * flops_per_token(work.shape, work.sequence_length) / plan.world_size
    return replace(
        plan,
        prediction=Prediction(
            step_seconds=seconds,
            tokens_per_second=rate,
            mfu=None if machine.peak_flops is None else flops / machine.peak_flops,
            gemm_fraction=flops / machine.gemm_flops,
            memory_bytes=round(sum(term.value for term in memory)),
            memory_limit=machine.memory_bytes,
            network_bytes=round(sent),
            network_seconds=sending,
            time=time,
            memory=memory,
        ),
    )


def _recomputed(plan: Plan, work: Work) -> float:
    match plan.activation_checkpoint:
        case "none":
            return 0.0
        case "selective":
            return SELECTIVE_RECOMPUTATION
        case "full":
            return recomputed_part(work.shape, work.sequence_length)


def _exposed_row(plan: Plan, link: Traffic, compute: float, root: float) -> tuple[float, float, str]:
    """Return the seconds of row traffic in the whole step that compute does not hide, those of the root's ends beyond them, and why.

    `compute` is of one micro-batch, `root` the root group's part of the parameters.
    """
    first, last = root * link.gather_seconds, root * link.reduce_seconds
    if plan.strategy == "unsharded-accumulation":
        gathers, gathers_end = _hidden(link.gather_seconds, FORWARD_PART * compute, first)
        reduces, reduces_end = _hidden(link.reduce_seconds, BACKWARD_PART * compute, last)
        why = f"once: gather {link.gather_seconds:.3g} s behind a forward, reduce {link.reduce_seconds:.3g} s behind a backward"
        return gathers + reduces, gathers_end + reduces_end, why
    count = gathers_of_micro_batch(plan)
    behind = count * link.gather_seconds + link.reduce_seconds
    # Nothing is known to be gathered early without prefetch: an upper bound.
    open_gather = link.gather_seconds if plan.prefetch == 0 else 0.0
    exposed, end = _hidden(behind - open_gather, compute, 0.0 if open_gather else first)
    _, final_end = _hidden(behind - open_gather, compute, last + (0.0 if open_gather else first))
    times = plan.accumulation
    size = count * link.gather_bytes + link.reduce_bytes
    why = f"{times} x {size / 1e9:.3g} GB in {behind:.3g} s behind {compute:.3g} s of compute"
    return times * (open_gather + exposed), (times - 1) * end + final_end, why


def _hidden(traffic: float, compute: float, ends: float) -> tuple[float, float]:
    """Return what traffic adds to compute that it may hide behind, and what it adds to that when `ends` of it cannot."""
    return max(0.0, traffic - compute), max(compute + ends, traffic) - max(compute, traffic)


def _row_bandwidth(machine: Machine, spans: int) -> float:
    inside = _needed(machine.in_node_bandwidth, "in_node_bandwidth") if machine.ranks_per_node > 1 else math.inf
    return inside if spans == 1 else min(inside, _needed(machine.cross_node_bandwidth, "cross_node_bandwidth"))


def _needed(bandwidth: float | None, name: str) -> float:
    if bandwidth is None:
        raise ValueError(f"{name}: found nothing; allowed: bytes/s, as the layout uses this link; measure it first")
    return bandwidth
