"""Rows of a benchmark: a figure over several runs beside what it aims at."""

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure over all runs; `target` is the most that its median aims at, None where there is no aim."""

    name: str
    unit: str
    median: float
    least: float
    most: float
    target: float | None

    @property
    def good(self) -> bool:
        """Tell whether the median meets its target."""
        return self.target is None or self.median <= self.target


def row(name: str, values: Sequence[float], target: float | None, unit: str = "s") -> Row:
    """Return the row of these values, one of each run."""
    return Row(
        name=name, unit=unit, median=statistics.median(values), least=min(values), most=max(values), target=target
    )


def show(rows: Sequence[Row], *, runs: int, json_output: bool) -> int:
    """Print the rows as a table or as one JSON object; return 1 when one misses its target, else 0."""
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    if json_output:
        print(json.dumps({"machine": machine, "runs": runs, "rows": [asdict(row) for row in rows]}))
    else:
        table = Table(title=f"{runs} runs; {machine}", title_justify="left")
        table.add_column("what")
        for heading in ("unit", "median", "min", "max", "target"):
            table.add_column(heading, justify="right")
        for one in rows:
            aims = "" if one.target is None else f"{one.target:g}"
            values = (f"{value:.2f}" for value in (one.median, one.least, one.most))
            table.add_row(one.name, one.unit, *values, aims)
        Console().print(table)
    return 0 if all(row.good for row in rows) else 1
