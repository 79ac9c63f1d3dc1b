"""Hold drills and print the table: fault, what happened, time."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from rehearsal.drills.drills import Outcome, check_names, hold_all
from rehearsal.drills.stage import Stage


def drill(names: Sequence[str], *, json_output: bool) -> int:
    """Hold the drills of these names, all for none, on a stage of their own. Return 0 when each ended as it has to, else 1."""
    check_names(names)
    progress = Console(file=sys.stderr)
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="efa-ray-train-drills-") as directory:
        stage = Stage(Path(directory))
        try:
            for outcome in hold_all(stage, names):
                outcomes.append(outcome)
                mark = "ok" if outcome.good else "NO"
                progress.print(f"{mark} {outcome.drill}: {outcome.seconds:.0f} s", highlight=False)
                if not outcome.good:
                    progress.print(outcome.happened, highlight=False, markup=False)
        finally:
            stage.close()
    if json_output:
        print(json.dumps([asdict(outcome) for outcome in outcomes]))
    else:
        Console().print(table(outcomes))
    return 0 if all(outcome.good for outcome in outcomes) else 1


def table(outcomes: Sequence[Outcome]) -> Table:
    """Return the outcomes as a table. What a drill that ended well has lost is nothing: its check is that the stack goes on."""
    found = Table(title="Drills", title_justify="left")
    for column in ("fault", "what happened", "seconds", "lost"):
        found.add_column(column, justify="right" if column == "seconds" else "left")
    for outcome in outcomes:
        lost = "nothing" if outcome.good else "unknown: the drill failed"
        # A failed drill's whole account is on stderr.
        happened = outcome.happened.partition("\n")[0]
        found.add_row(f"{outcome.drill}: {outcome.about}", happened, f"{outcome.seconds:.0f}", lost)
    return found
