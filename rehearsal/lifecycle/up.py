"""Bring a stack up in a world of this machine, let its job train, and gather what came of it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rehearsal.charts import assemble
from rehearsal.cluster import find_programs
from rehearsal.containers.operator_binary import find_operator
from rehearsal.documents import as_list
from rehearsal.engine.process import Outcome
from rehearsal.engine.session import Session, explain, stop_if_cut_off
from rehearsal.engine.stacks import prepare_stack, stack_config
from rehearsal.engine.state import State
from rehearsal.engine.summary import Summary, read_summary
from rehearsal.errors import RehearsalError
from rehearsal.kubernetes import Kubernetes
from rehearsal.lifecycle.diagnosis import diagnose
from rehearsal.lifecycle.milestones import Milestones, read_milestones
from rehearsal.toolchain.crds import kuberay_crds
from rehearsal.world.daemon import LOCAL_WORKERS
from rehearsal.world.record import World, is_kept, places
from rehearsal.world.starting import await_world, start_world

_RELEASE = "kubernetes:helm.sh/v3:Release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What an `up` came to."""

    status: int
    """Of the engine."""
    summary: Summary
    milestones: Milestones
    causes: tuple[str, ...]
    """Why it failed, as far as the cluster tells."""


def ensure_world(project: Path, stack: str, state: State, *, scale: int | None) -> World:
    """Return the world that stands for `stack`, started now if there is none.

    `scale` is the number of GPU nodes, None for that of the stack's file. Resources that the state has from a world that is gone are
    forgotten, and that is told on stderr. Raises RehearsalError when another world stands there.
    """
    config = stack_config(project, stack)
    overrides = _overrides(config, state, scale)
    if is_kept(places(state)):
        world = await_world(state)
        if world.stack != stack or world.overrides != overrides:
            raise RehearsalError(
                f"world: stands for stack {world.stack} with {json.dumps(dict(world.overrides))}, asked is {stack} with "
                f"{json.dumps(overrides)}; take it down first with `make rehearse-down`"
            )
        return world
    # Built here, where a person sees how far it is; the daemon finds them ready.
    find_programs()
    find_operator()
    assemble(_charts(state), kuberay_crds())
    if prepare_stack(project, stack, state, {}).forget(state):
        print(f"stack {stack}: its last world is gone, so its resources are forgotten", file=sys.stderr)
    return start_world(state, stack=stack, region=str(config.get("aws:region", "")), overrides=overrides)


def bring_up(
    session: Session, world: World, directory: Path, *, policies: bool, extra: Sequence[str], stdout: IO[str]
) -> Result:
    """Run `pulumi up EXTRA` on the stack, what it shows going to `stdout`. The run's own files go to `directory`.

    Raises KeyboardInterrupt when it was interrupted and RehearsalError for what the rehearsal itself got wrong.
    """
    event_log = directory / f"up-{time.time_ns()}.json"
    # With the preview, unless `extra` skips it: what a policy forbids is refused there, before anything is made.
    arguments = ["up", "--yes", "--event-log", str(event_log), *extra]
    if policies:
        arguments += ["--policy-pack", str(session.project / "policies")]
    outcome: Outcome = session.run(*arguments, stdout=stdout)
    stop_if_cut_off(outcome)
    reason = explain(outcome, session.state) if outcome.status else None
    if reason is not None:
        raise RehearsalError(reason)
    causes: list[str] = []
    if outcome.status:
        releases = [(str(one.get("namespace")), str(one.get("name"))) for one in session.resources(_RELEASE)]
        causes = diagnose(Kubernetes(Path(world.kubeconfig)), known_releases=releases)
    return Result(
        status=outcome.status,
        summary=read_summary(event_log),
        milestones=read_milestones(event_log),
        causes=tuple(causes),
    )


def _overrides(config: Mapping[str, object], state: State, scale: int | None) -> dict[str, object]:
    overrides: dict[str, object] = {"chartSource": str(_charts(state))}
    if scale is not None:
        given = map(str, as_list(config.get("efa-ray-train:trainingArguments") or []))
        # The last one counts: the job trains on the Ray workers that are there.
        nodes = [f"--num-nodes={LOCAL_WORKERS}"] if scale > LOCAL_WORKERS else []
        overrides |= {"gpuNodeCount": scale, "trainingArguments": [*given, *nodes]}
    return overrides


def _charts(state: State) -> Path:
    """Return where the charts with the real definitions lie: a path that stays, since it is part of the stack's inputs."""
    return state.root / "charts"
