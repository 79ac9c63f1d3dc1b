"""Say why a model does not fit, with the arithmetic, and what would. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from .candidates import candidates
from .config import PlanConfig
from .machine import Machine, Work
from .memory import memory_bytes, memory_terms
from .plan import Plan

MOST_NODES = 1024
LEAST_SEQUENCE, LEAST_CHUNK = 128, 128


def refusal(every: Sequence[Plan], work: Work, machine: Machine, fixed: PlanConfig) -> str:
    """Return one line: the leanest layout term by term, what there is, and each smallest change that fits.

    Only changes of what this program has are offered: fewer kept activations are candidates already, and Adam's moments are fp32.
    """
    leanest = min(every, key=lambda plan: (memory_bytes(plan, work, machine), plan.key))
    needs = memory_bytes(leanest, work, machine)
    terms = " + ".join(
        f"{term.name} {term.value / 1e9:.2f}" for term in memory_terms(leanest, work, machine) if term.value >= 5e6
    )
    changes = _changes(work, machine, fixed)
    todo = (
        "; or ".join(changes)
        if changes
        else f"no number of nodes up to {MOST_NODES} helps; take a card with more memory"
    )
    return (
        f"memory: found {needs / 1e9:.2f} GB a rank for the leanest layout, {leanest.key} ({terms}); allowed: "
        f"{machine.memory_bytes / 1e9:.2f} GB; {todo}"
    )


def _changes(work: Work, machine: Machine, fixed: PlanConfig) -> list[str]:
    found: list[str] = []
    if fixed.fixed and _fits(work, machine, PlanConfig()):
        found.append(f"leave out what is fixed: {', '.join(f'plan.{key}' for key in fixed.fixed)}")
    chunk = _largest(work.loss_chunk, LEAST_CHUNK, lambda size: _fits(replace(work, loss_chunk=size), machine, fixed))
    if chunk:
        found.append(f"set the loss chunk to {chunk} rows (now {work.loss_chunk})")
    length = _largest(
        work.sequence_length, LEAST_SEQUENCE, lambda size: _fits(replace(work, sequence_length=size), machine, fixed)
    )
    if length:
        found.append(f"set sequence_length to {length} (now {work.sequence_length})")
    nodes = _fewest_nodes(work, machine, fixed)
    if nodes:
        found.append(f"take {nodes} nodes (now {machine.num_nodes})")
    return found


def _largest(now: int, least: int, fits: Callable[[int], bool]) -> int | None:
    """Return the largest of now/2, now/4, ... that fits."""
    size = now // 2
    while size >= least:
        if fits(size):
            return size
        size //= 2
    return None


def _fewest_nodes(work: Work, machine: Machine, fixed: PlanConfig) -> int | None:
    """Return the smallest number of nodes that fits: more nodes never need more memory of a rank."""
    low, high = machine.num_nodes, MOST_NODES
    if high <= low or not _fits(work, replace(machine, num_nodes=high), fixed):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _fits(work, replace(machine, num_nodes=middle), fixed) else (middle, high)
    return high


def _fits(work: Work, machine: Machine, fixed: PlanConfig) -> bool:
    """Tell whether the leanest layout fits; a global batch that the change would not divide is the next question, not this one."""
    # Two micro-batches, so that no strategy is left out.
    sequences = 2 * (fixed.micro_batch or 1)
    whole = replace(work, global_batch_tokens=machine.world_size * work.sequence_length * sequences)
    return any(memory_bytes(plan, whole, machine) <= machine.memory_bytes for plan in candidates(whole, machine, fixed))
