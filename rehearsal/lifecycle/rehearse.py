"""The two commands of a rehearsal: everything up with its job, and everything down with a proof."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from rehearsal.engine.session import check_project, open_session
from rehearsal.engine.stacks import prepare_stack, stack_config
from rehearsal.engine.usage import run_directory
from rehearsal.errors import RehearsalError
from rehearsal.lifecycle.down import take_down
from rehearsal.lifecycle.job import job_result, run_output_command
from rehearsal.lifecycle.report import show_causes, show_next, show_result
from rehearsal.lifecycle.up import bring_up, ensure_world
from rehearsal.toolchain.pulumi import find_toolchain
from rehearsal.world.record import is_kept, places
from rehearsal.world.starting import await_world, stop_world


def rehearse(
    project: Path,
    stack: str,
    *,
    scale: int | None,
    policies: bool,
    json_output: bool,
    extra: Sequence[str] = (),
) -> int:
    """Bring the stack up, with its training job, and leave it standing. Return 0, or 1 when the update or the job failed.

    `extra` goes to `pulumi up`.

    Raises RehearsalError for what stands in the way before the engine runs.
    """
    begun = time.monotonic()
    console = Console(file=sys.stderr if json_output else sys.stdout)
    check_project(project)
    with run_directory(project) as (state, directory):
        find_toolchain()
        world = ensure_world(project, stack, state, scale=scale)
        stands = time.monotonic() - begun
        session = open_session(project, stack, state, world=world)
        up = bring_up(session, world, directory, policies=policies, extra=extra, stdout=console.file)
        outputs = session.outputs()
    times = {
        "world stands": stands,
        "RayCluster provisioned": up.milestones.ray_cluster,
        "training job ended": up.milestones.ray_job,
        "update": up.milestones.whole,
        "in all": time.monotonic() - begun,
    }
    result = _result(outputs, world) if outputs.get("jobName") else None
    if json_output:
        document = {
            "status": up.status,
            "seconds": times,
            "changes": up.summary.changes,
            "policies": [finding.text() for finding in up.summary.findings],
            "errors": up.summary.errors,
            "causes": up.causes,
            "outputs": outputs,
            "result": result,
        }
        print(json.dumps(document))
    show_causes(console, up.causes)
    show_result(console, times=times, outputs=outputs, result=result)
    show_next(console, world, outputs, stack=stack)
    return 0 if up.status == 0 else 1


def start(project: Path, stack: str, *, scale: int | None, json_output: bool) -> int:
    """Start the world of a stack, empty, or find it standing. Return 0; raise RehearsalError when it does not come to stand."""
    begun = time.monotonic()
    check_project(project)
    with run_directory(project) as (state, _):
        world = ensure_world(project, stack, state, scale=scale)
    seconds = time.monotonic() - begun
    if json_output:
        print(json.dumps({"kubeconfig": world.kubeconfig, "aws_endpoint": world.aws_endpoint, "seconds": seconds}))
    else:
        print(
            f"world of {stack} stands ({seconds:.0f} s): local AWS at {world.aws_endpoint}, KUBECONFIG={world.kubeconfig}"
        )
    return 0


def take_all_down(project: Path, stack: str, *, keep_world: bool, json_output: bool) -> int:
    """Destroy the stack, prove that nothing is left, and end the world. Return 0, or 1 when the destroy failed or something is left.

    With `keep_world` the empty world stays for the next one. A world that is gone takes what was in it along: then only the state
    forgets the stack.
    """
    console = Console(file=sys.stderr if json_output else sys.stdout)
    check_project(project)
    region = str(stack_config(project, stack).get("aws:region", ""))
    with run_directory(project) as (state, directory):
        world = await_world(state) if is_kept(places(state)) else None
        if world is None:
            forgotten = prepare_stack(project, stack, state, {}).forget(state)
            ended = stop_world(state)
            said = (
                "there was no world"
                if not (forgotten or ended)
                else "its world was gone; what was kept of it is removed"
            )
            console.print(f"rehearsal of {stack}: nothing to take down, {said}")
            if json_output:
                print(json.dumps({"status": 0, "left": {}, "changes": {}, "seconds": 0.0}))
            return 0
        if world.stack != stack:
            raise RehearsalError(
                f"world: stands for stack {world.stack}, not {stack}; take it down with STACK={world.stack}"
            )
        session = open_session(project, stack, state, world=world, check_settings=False)
        down = take_down(session, world, region, directory, stdout=console.file)
        good = down.status == 0 and not down.left
        if good:
            if keep_world:
                await_world(state, unused=True)
            else:
                session.stack.forget(state)
                stop_world(state)
    if json_output:
        print(
            json.dumps(
                {
                    "status": down.status,
                    "errors": down.summary.errors,
                    "left": down.left,
                    "changes": down.summary.changes,
                    "seconds": down.seconds,
                }
            )
        )
    for kind, names in down.left.items():
        console.print(f"left: {kind}: {', '.join(names)}", soft_wrap=True, highlight=False, markup=False)
    console.print(
        _ending(stack, down.summary.changes, down.seconds, good=good, root=str(places(state).root)),
        soft_wrap=True,
        highlight=False,
    )
    return 0 if good else 1


def _result(outputs: Mapping[str, Any], world: Any) -> Mapping[str, Any] | None:
    try:
        return job_result(run_output_command(world, outputs["jobLogs"]["driver"]["command"]))
    except RehearsalError as problem:
        print(problem, file=sys.stderr)
        return None


def _ending(stack: str, changes: Mapping[str, int], seconds: float, *, good: bool, root: str) -> str:
    if good:
        return (
            f"rehearsal of {stack} is down: {changes.get('delete', 0)} resources deleted in {seconds:.0f} s; "
            "the local AWS has nothing left, the world has ended with its cluster"
        )
    return f"rehearsal of {stack} is NOT down; its world still stands ({root}): mend the cause and run it again"
