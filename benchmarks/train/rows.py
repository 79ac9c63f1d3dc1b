"""Lines of a raw log, and what rows they make: medians over the repetitions of a point, with least and most."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from workloads.train.errors import UsageError

Line: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Of some repetitions."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return the spread of one value or more."""
        return cls(median=statistics.median(values), least=min(values), most=max(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One point, over all its repetitions."""

    name: str
    point: Mapping[str, Any]
    outcome: str
    runs: int
    rate: Spread | None
    """tokens/s of one rank; None where none was measured."""
    step: Spread | None
    """Seconds."""
    mfu: float | None
    gemm_part: float | None
    """Model FLOPs over the GEMM rate measured beside them."""
    memory: float | None
    """Bytes that the allocator reserved at most, of the rank that needed most."""
    link: Spread | None
    """Gb/s."""
    expected: float | None
    """Seconds of a step."""
    last: Line


def read(path: Path) -> list[Line]:
    """Return the lines of a raw log; a last line that was cut off is left out.

    Raises:
        UsageError: a line before it is no JSON.
    """
    if not path.exists():
        return []
    found: list[Line] = []
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        try:
            found.append(json.loads(line))
        except ValueError as error:
            if number == len(lines):
                break
            raise UsageError(f"{path}: line {number}: {error}; allowed: JSON; remove it") from error
    return found


def rows(lines: Iterable[Line]) -> list[Row]:
    """Return the rows in the order in which points first came; failures that a later try made good are left out."""
    of: dict[str, list[Line]] = {}
    for line in lines:
        if "point" in line:
            of.setdefault(line["point"]["name"], []).append(line)
    return [_row(name, some) for name, some in of.items()]


def _row(name: str, lines: list[Line]) -> Row:
    good = [line for line in lines if line["outcome"] == "ok"]
    last = (good or lines)[-1]
    links = [line["link_gbps"] for line in good if line.get("link_gbps")]
    expected = [line["expected"]["step_seconds"] for line in good if line.get("expected")]
    return Row(
        name=name,
        point=last["point"],
        outcome="ok" if good else lines[-1]["outcome"],
        runs=len(good),
        rate=Spread.of([line["tokens_per_second_per_rank"] for line in good]) if good else None,
        step=Spread.of([line["step_seconds"]["median"] for line in good]) if good else None,
        mfu=statistics.median(line["mfu"] for line in good) if good and last["mfu"] is not None else None,
        gemm_part=statistics.median(line["model_flops"] / line["gemm_flops"] for line in good) if good else None,
        memory=max(line["memory_reserved"] for line in good) if good else None,
        link=Spread.of(links) if links else None,
        expected=statistics.median(expected) if expected else None,
        last=last,
    )


def table(found: Sequence[Row]) -> list[tuple[str, ...]]:
    """Return heading and rows as text."""
    heading = ("row", "tokens/s/GPU", "min - max", "runs", "step s", "MFU", "of GEMM", "GB", "link Gb/s", "expected s")
    return [heading, *map(_texts, found)]


def _texts(row: Row) -> tuple[str, ...]:
    if row.rate is None or row.step is None:
        return (row.name, row.outcome, *("" for _ in range(8)))
    return (
        row.name,
        f"{row.rate.median:,.0f}",
        f"{row.rate.least:,.0f} - {row.rate.most:,.0f}",
        str(row.runs),
        f"{row.step.median:.3f}",
        "" if row.mfu is None else f"{row.mfu:.1%}",
        "" if row.gemm_part is None else f"{row.gemm_part:.1%}",
        "" if not row.memory else f"{row.memory / 1e9:.0f}",
        "" if row.link is None else f"{row.link.median:.1f}",
        "" if row.expected is None else f"{row.expected:.3f}",
    )
