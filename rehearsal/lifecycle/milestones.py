"""When an engine run reached what people wait for, from the engine's own event log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, cast

from rehearsal.engine.event_log import read_events

RAY_CLUSTER = "kubernetes:ray.io/v1:RayCluster"
RAY_JOB = "kubernetes:ray.io/v1:RayJob"


class _Metadata(TypedDict, total=False):
    op: str
    type: str


class _Outputs(TypedDict, total=False):
    metadata: _Metadata
    planning: bool


class _Event(TypedDict, total=False):
    timestamp: int
    resOutputsEvent: _Outputs


@dataclass(frozen=True, slots=True)
class Milestones:
    """Seconds from the begin of a run, whole ones as the engine writes them; None for what it did not reach or did not change."""

    ray_cluster: float | None
    """The RayCluster is provisioned."""
    ray_job: float | None
    """The RayJob has ended."""
    whole: float


def read_milestones(event_log: Path) -> Milestones:
    """Read the engine's event log. A log without events gives nothing and 0 s."""
    events = cast(list[_Event], read_events(event_log))
    times = [time for event in events if (time := event.get("timestamp"))]
    if not times:
        return Milestones(None, None, 0.0)
    begun = times[0]
    reached: dict[str, float] = {}
    for event in events:
        done = event.get("resOutputsEvent", {})
        metadata = done.get("metadata", {})
        # The preview that goes before has the same events.
        if not done.get("planning") and metadata.get("op") not in (None, "same"):
            reached[metadata.get("type", "")] = event.get("timestamp", begun) - begun
    return Milestones(reached.get(RAY_CLUSTER), reached.get(RAY_JOB), times[-1] - begun)
