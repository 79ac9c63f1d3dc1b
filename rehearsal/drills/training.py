"""The training job fails, is hurt, or cannot keep what it learned."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

from rehearsal.drills.stage import QUICK_JOB, DrillError, Stage


def job_fails(stage: Stage) -> str:
    """The program raises at step 3: the update fails with the program's own words, one that changes nothing too, a mended one trains."""
    stage.train(*QUICK_JOB, "--steps=6", "--fail-at-step=3")
    words = ("ended as FAILED", "fault point after-step-3: raised by rank 1")
    run = stage.update()
    run.must(1, *words)
    job = _job(stage)
    # https://github.com/pulumi/pulumi-kubernetes/issues/856: the state has the failed job, so an update finds nothing to do.
    stage.update().must(1, *words)
    if _job(stage) != job:
        raise DrillError(f"job: {job} was replaced by {_job(stage)}; expected that nothing runs again unasked")
    stage.restore()
    again = stage.update()
    again.must(0)
    return (
        f"update failed in {run.seconds:.0f} s with the job's own words; the next one trained in {again.seconds:.0f} s"
    )


def worker_killed(stage: Stage) -> str:
    """A training process is killed in the middle: the others stop, all start again from the last checkpoint."""
    stage.train(*QUICK_JOB, "--steps=40")
    command = stage.begin_update()
    command.wait_for("step 8", lambda: _last_step(_events(stage)) >= 8)
    ranks = next(event for event in _events(stage) if event["event"] == "plan")["ranks"]
    os.kill(ranks[-1]["pid"], signal.SIGKILL)
    run = command.end()
    run.must(0)
    events = _events(stage)
    resumed = [event["step"] for event in events if event["event"] == "resume" and event["step"]]
    if not resumed or _last_step(events) != 40:
        raise DrillError(f"worker: resumed at {resumed}, last step {_last_step(events)}; expected a resume and step 40")
    return f"resumed from step {resumed[-1]} and trained to 40 in {run.seconds:.0f} s"


def checkpoint_store_full(stage: Stage) -> str:
    """The checkpoint store takes no more: the job ends and names store and last good checkpoint, which is still there."""
    stage.put_fault(at="object", code="StorageFull", keyPrefix="checkpoints/")
    stage.train(*QUICK_JOB, "--steps=6")
    run = stage.update()
    run.must(1, "ended as FAILED", "No space left on device")
    stage.clear_faults()
    stage.set(runId="again")
    again = stage.update()
    again.must(0)
    return f"update failed in {run.seconds:.0f} s naming the store; with room again it trained in {again.seconds:.0f} s"


def _job(stage: Stage) -> str:
    return stage.kubectl("get", "rayjob", "-A", "-o", "jsonpath={.items[*].metadata.uid}")


def _events(stage: Stage) -> list[dict[str, Any]]:
    """Return the events of the run that is going on, none before it prints any."""
    name = stage.kubectl("get", "rayjob", "-n", "ray-train", "-o", "jsonpath={.items[-1:].metadata.name}")
    if not name:
        return []
    # The file that `ray job logs` prints, without the seconds that it takes to start.
    file = f"${{RAY_TMPDIR:-/tmp}}/ray/session_latest/logs/job-driver-{name}.log"
    told = stage.kubectl(
        "exec", "-n", "ray-train", "service/ray-head-svc", "-c", "ray-head", "--", "sh", "-c", f"cat {file}"
    )
    lines = (line[line.find("{") :] for line in told.splitlines() if '"event"' in line)
    return [json.loads(line) for line in lines if line.endswith("}")]


def _last_step(events: list[dict[str, Any]]) -> int:
    return max((event["step"] for event in events if event["event"] == "step"), default=0)
