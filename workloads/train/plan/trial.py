"""What was found by trying: which layouts ran out of memory, which one was proven, and how its prediction compares.

A prediction says what should fit; `TRIAL_STEPS` optimizer steps prove it: in the second one Adam's moments are there and the allocator has
seen every size. A rank that runs out of memory ends its worker group; whoever starts the next one marks the layout in the record first, and
`choose` then takes the next. The record is a JSON object, so that it can be kept wherever the run keeps its state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Literal, cast

from ..errors import TrainingError
from .choose import prediction_of
from .plan import Plan

TRIAL_STEPS = 2
_SIGNS = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a plan did cost."""

    step_seconds: float
    """Median of the steps after the trial."""
    tokens_per_second: float
    mfu: float | None
    gemm_fraction: float
    memory_bytes: int
    """Peak that the allocator reserved, and the context beside it, of the rank that needed most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A layout that ran out of memory."""

    plan: Plan
    said: str
    """The rank's own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The record. It begins empty; `ran_out` and `held` return the next one."""

    marks: tuple[Mark, ...] = ()
    proven: Plan | None = None

    @property
    def state(self) -> Literal["trying", "proven"]:
        """Return whether a layout has proven that it fits."""
        return "trying" if self.proven is None else "proven"

    @property
    def out_of_memory(self) -> tuple[Plan, ...]:
        """Return what `choose` shall pass over."""
        return tuple(mark.plan for mark in self.marks)

    def ran_out(self, plan: Plan, said: str) -> "Trial":
        """Mark a layout. One that was proven may run out later, when longer runs cut the memory into pieces: then it is proven no more."""
        marks = tuple(mark for mark in self.marks if mark.plan.key != plan.key)
        proven = self.proven if self.proven is None or self.proven.key != plan.key else None
        return replace(self, marks=(*marks, Mark(plan=plan, said=" ".join(said.split()))), proven=proven)

    def held(self, plan: Plan) -> "Trial":
        """Note that a layout did its trial steps.

        Raises:
            TrainingError: it is marked; whoever calls has mixed up two tries.
        """
        if any(mark.plan.key == plan.key for mark in self.marks):
            raise TrainingError(
                f"trial: found {plan.key}, which ran out of memory before; allowed: a layout without a mark; take what `choose` returns"
            )
        return replace(self, proven=plan)

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            "out_of_memory": {mark.plan.key: {"plan": mark.plan.to_json(), "said": mark.said} for mark in self.marks},
            "proven": self.proven.to_json() if self.proven else None,
        }

    @classmethod
    def from_json(cls, value: object) -> "Trial":
        """Read what `to_json` wrote.

        Raises:
            TrainingError: what stands there is no record; the line names the place.
        """
        found = _mapping(value, "trial")
        marks = _mapping(found.get("out_of_memory"), "trial.out_of_memory")
        proven = found.get("proven")
        return cls(
            marks=tuple(_mark(key, mark) for key, mark in marks.items()),
            proven=None if proven is None else Plan.from_json(proven),
        )


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error, or what it was raised from, is an allocation that failed: torch's own, cuBLAS's, NCCL's or Python's."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, MemoryError) or type(seen).__name__ == "OutOfMemoryError":
            return True
        if isinstance(seen, RuntimeError) and any(sign in str(seen) for sign in _SIGNS):
            return True
        seen = seen.__cause__
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One line of prediction beside measurement."""

    name: str
    predicted: float
    measured: float
    unit: str

    @property
    def ratio(self) -> float | None:
        """Return measured over predicted; None where nothing was predicted."""
        return self.measured / self.predicted if self.predicted else None

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {**asdict(self), "ratio": self.ratio}


def predicted_beside_measured(plan: Plan, measured: Measured) -> list[Comparison]:
    """Return what the plan promised beside what came, for the end of a run. What has no datasheet is left out."""
    found = prediction_of(plan)
    units = {
        "step_seconds": "s",
        "tokens_per_second": "tokens/s",
        "mfu": "of the peak",
        "gemm_fraction": "of the GEMM rate",
        "memory_bytes": "B",
    }
    rows: list[Comparison] = []
    for name in (field.name for field in fields(Measured)):
        promised, came = cast(float | None, getattr(found, name)), cast(float | None, getattr(measured, name))
        if promised is not None and came is not None:
            rows.append(Comparison(name=name, predicted=promised, measured=came, unit=units[name]))
    return rows


def render(rows: Sequence[Comparison]) -> str:
    """Return the comparison for people, one line each."""
    lines = [f"{'':20}{'predicted':>16}{'measured':>16}{'ratio':>8}"]
    for row in rows:
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
        lines.append(f"{row.name:20}{_shown(row.predicted):>16}{_shown(row.measured):>16}{ratio:>8}  {row.unit}")
    return "\n".join(lines)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _mark(key: str, value: object) -> Mark:
    found = _mapping(value, f"trial.out_of_memory.{key}")
    return Mark(plan=Plan.from_json(found.get("plan")), said=str(found.get("said", "")))


def _mapping(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise TrainingError(
            f"{name}: found {value!r}; allowed: a JSON object; remove the record, and every layout is tried anew"
        )
    return cast(Mapping[str, object], value)
