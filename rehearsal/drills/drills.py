"""The drills, in the order that spares the stage most."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rehearsal.drills import capacity, cluster, interrupted, training
from rehearsal.drills.stage import Stage
from rehearsal.errors import RehearsalError


@dataclass(frozen=True, slots=True)
class Drill:
    """A fault, and what has to come of it."""

    name: str
    run: Callable[[Stage], str]
    """Make the fault, check what comes of it and that the stack goes on, and tell it in a few words. Raises DrillError."""

    @property
    def about(self) -> str:
        """Return what the fault is."""
        return (self.run.__doc__ or "").strip().rstrip(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a drill ended."""

    drill: str
    about: str
    good: bool
    happened: str
    seconds: float


DRILLS: Sequence[Drill] = (
    Drill("no-capacity", capacity.no_capacity),
    Drill("quota-too-small", capacity.quota_too_small),
    Drill("type-not-in-zone", capacity.type_not_in_zone),
    Drill("policy-violated", interrupted.policy_violated),
    Drill("update-killed", interrupted.update_killed),
    Drill("job-fails", training.job_fails),
    Drill("worker-killed", training.worker_killed),
    Drill("checkpoint-store-full", training.checkpoint_store_full),
    Drill("destroy-interrupted", interrupted.destroy_interrupted),
    Drill("operator-crash", cluster.operator_crash),
    Drill("api-server-dead", cluster.api_server_dead),
    Drill("efa-plugin-missing", cluster.efa_plugin_missing),
    Drill("ray-cluster-held", cluster.ray_cluster_held),
    Drill("gpu-label-wrong", cluster.gpu_label_wrong),
)


def check_names(names: Sequence[str]) -> None:
    """Raise RehearsalError for a name that no drill has."""
    known = [drill.name for drill in DRILLS]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise RehearsalError(
            f"drill: found {', '.join(unknown)}; allowed: {', '.join(known)}; name some of these, or none for all"
        )


def hold(drill: Drill, stage: Stage) -> Outcome:
    """Run a drill on a stage whose program is the repository's own. After one that failed the stage is another."""
    begun = time.monotonic()
    stage.restore()
    try:
        happened, good = drill.run(stage), True
    except RehearsalError as problem:
        happened, good = str(problem), False
    seconds = time.monotonic() - begun
    if not good:
        stage.renew()
    return Outcome(drill=drill.name, about=drill.about, good=good, happened=happened, seconds=seconds)


def hold_all(stage: Stage, names: Sequence[str]) -> Iterator[Outcome]:
    """Run the drills of these names, all for none, and give each outcome as it comes."""
    for drill in DRILLS:
        if not names or drill.name in names:
            yield hold(drill, stage)
