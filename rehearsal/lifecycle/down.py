"""Take a stack and its world down, and prove that nothing is left."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rehearsal.engine.session import Session, stop_if_cut_off
from rehearsal.engine.summary import Summary, read_summary
from rehearsal.lifecycle.leftovers import leftovers
from rehearsal.world.record import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What a `destroy` came to."""

    status: int
    """Of the engine."""
    summary: Summary
    left: dict[str, list[str]]
    """What the local AWS still has, by kind."""
    seconds: float


def take_down(session: Session, world: World, region: str, directory: Path, *, stdout: IO[str]) -> Removal:
    """Run `pulumi destroy` on the stack, what it shows going to `stdout`, then look at what is left.

    Raises KeyboardInterrupt when it was interrupted.
    """
    begun = time.monotonic()
    event_log = directory / f"destroy-{time.time_ns()}.json"
    outcome = session.run("destroy", "--yes", "--skip-preview", "--event-log", str(event_log), stdout=stdout)
    stop_if_cut_off(outcome)
    return Removal(
        status=outcome.status,
        summary=read_summary(event_log),
        left=leftovers(world.aws_endpoint, region),
        seconds=time.monotonic() - begun,
    )
