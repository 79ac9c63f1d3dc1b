"""What a job would do on machines that are not here: the plan and its prediction for numbers of nodes, as a table. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UsageError
from ..model_shape import ModelShape
from .choose import prediction_of, rank
from .cost import predict
from .instances import Instance, machine_of
from .machine import Fact, Work
from .plan import Plan

TOKENS_PER_RANK = 32_768
"""Tokens of one rank in one step where no global batch is given: 262,144 on two g6.12xlarge, the rest in proportion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number of nodes of one instance type."""

    instance: Instance
    num_nodes: int
    global_batch_tokens: int
    plan: Plan | None
    """The choice; None where nothing fits."""
    ceiling: Plan | None
    """The same layout, were every FLOP done at the GEMM rate."""
    refused: str
    """Why nothing fits; empty where something does."""
    facts: tuple[Fact, ...]

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            "instance": self.instance.name,
            "nodes": self.num_nodes,
            "gpus": self.num_nodes * self.instance.gpus,
            "global_batch_tokens": self.global_batch_tokens,
            "plan": self.plan.to_json() if self.plan else None,
            "ceiling_tokens_per_second": prediction_of(self.ceiling).tokens_per_second if self.ceiling else None,
            "refused": self.refused or None,
            "facts": [
                {"name": fact.name, "value": fact.value, "mark": fact.mark, "source": fact.source}
                for fact in self.facts
            ],
        }


def row(
    shape: ModelShape, kind: Instance, num_nodes: int, *, sequence_length: int, global_batch_tokens: int | None
) -> Row:
    """Return what so many nodes would do. Blocks are compiled and the loss takes 1,024 rows at a time, as by default.

    Raises:
        UsageError: the global batch that is given cannot be divided.
    """
    tokens = global_batch_tokens or _proportional(sequence_length, num_nodes * kind.gpus)
    work = Work(
        shape=shape, sequence_length=sequence_length, global_batch_tokens=tokens, compiled=True, loss_chunk=1024
    )
    machine = machine_of(kind, num_nodes)
    try:
        plan = rank(work, machine)[0]
    except UsageError as error:
        if not str(error).startswith("memory:"):
            raise
        return Row(
            instance=kind,
            num_nodes=num_nodes,
            global_batch_tokens=tokens,
            plan=None,
            ceiling=None,
            refused=str(error),
            facts=machine.facts,
        )
    return Row(
        instance=kind,
        num_nodes=num_nodes,
        global_batch_tokens=tokens,
        plan=plan,
        ceiling=predict(plan, work, machine_of(kind, num_nodes, kernel_efficiency=1.0)),
        refused="",
        facts=machine.facts,
    )


def _proportional(sequence_length: int, world_size: int) -> int:
    return max(1, TOKENS_PER_RANK // sequence_length) * sequence_length * world_size


def render(model: str, shape: ModelShape, rows: Sequence[Row], sequence_length: int) -> str:
    """Return the rows as a text: a table of choices, then for each every term, then what is assumed and where it is from."""
    lines = [
        f"{model}: {shape.num_parameters / 1e9:.3f} B parameters, sequences of {sequence_length} tokens",
        "",
        *_table(
            ("nodes", "GPUs", "batch, tokens", "strategy", "mesh", "micro x accum", "checkpointing", "weights", "step, s", "tokens/s",
             "at the GEMM rate", "MFU", "of GEMM", "memory, GB", "GB a node and step"),
            [_cells(row) for row in rows],
        ),
    ]  # fmt: skip
    for one in rows:
        lines += ["", *_detail(one)]
    for kind in dict.fromkeys(row.instance.name for row in rows):
        facts = next(row.facts for row in rows if row.instance.name == kind)
        cells = [(fact.name, fact.value, f"[{fact.mark}]", fact.source) for fact in facts]
        lines += ["", f"What goes into it: {kind}", *_table(("fact", "value", "", "source"), cells)]
    return "\n".join(line.rstrip() for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    name = f"{row.num_nodes} x {row.instance.name}"
    gpus, batch = str(row.num_nodes * row.instance.gpus), f"{row.global_batch_tokens:,}"
    if row.plan is None or row.ceiling is None:
        return (name, gpus, batch, "does not fit", *("-" for _ in range(11)))
    plan, found = row.plan, prediction_of(row.plan)
    return (
        name,
        gpus,
        batch,
        plan.strategy,
        f"{plan.dp_replicate} x {plan.dp_shard}",
        f"{plan.micro_batch} x {plan.accumulation}",
        plan.activation_checkpoint,
        "freed" if plan.reshard_after_forward else "kept",
        f"{found.step_seconds:.3f}",
        f"{found.tokens_per_second:,.0f}",
        f"{prediction_of(row.ceiling).tokens_per_second:,.0f}",
        "-" if found.mfu is None else f"{found.mfu:.1%}",
        f"{found.gemm_fraction:.1%}",
        f"{found.memory_bytes / 1e9:.1f} of {found.memory_limit / 1e9:.1f}",
        f"{found.network_bytes / 1e9:.2f}",
    )


def _detail(row: Row) -> list[str]:
    name = f"{row.num_nodes} x {row.instance.name}"
    return [f"{name}: {row.refused}"] if row.plan is None else [f"{name}:", *terms(row.plan)]


def terms(plan: Plan) -> list[str]:
    """Return every term of a plan's prediction, one a line, time first."""
    found = prediction_of(plan)
    time = [(f"  {term.name}", f"{term.value:.3f} s", term.why) for term in found.time]
    memory = [(f"  {term.name}", f"{term.value / 1e9:.3f} GB", term.why) for term in found.memory]
    return [
        *_table(None, [*time, ("  = step", f"{found.step_seconds:.3f} s", f"{found.tokens_per_second:,.0f} tokens/s")]),
        *_table(
            None, [*memory, ("  = peak", f"{found.memory_bytes / 1e9:.3f} GB", f"of {found.memory_limit / 1e9:.3f} GB")]
        ),
    ]


def _table(head: Sequence[str] | None, cells: Sequence[Sequence[str]]) -> list[str]:
    every = [head, *cells] if head else list(cells)
    widths = [max(len(row[column]) for row in every) for column in range(len(every[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in every]
