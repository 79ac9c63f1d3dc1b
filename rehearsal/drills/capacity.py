"""AWS gives no nodes: three reasons that people take for one another."""

from __future__ import annotations

from rehearsal.drills.stage import DrillError, Stage


def no_capacity(stage: Stage) -> str:
    """The zone has no room for the type: the update says so, and names where there is room."""
    return _refused(stage, "InsufficientInstanceCapacity", "do not have sufficient g6.12xlarge capacity", "us-east-2b")


def quota_too_small(stage: Stage) -> str:
    """The account may not have as many vCPUs: another zone would not help, and none is named."""
    return _refused(stage, "VcpuLimitExceeded", "current vCPU limit of 64", limit=64)


def type_not_in_zone(stage: Stage) -> str:
    """The zone does not offer the type."""
    return _refused(stage, "Unsupported", "is not supported in your requested Availability Zone (us-east-2b)")


def _refused(stage: Stage, code: str, *said: str, **more: object) -> str:
    stage.empty()
    stage.put_fault(at="nodegroup", code=code, instanceType="g6.12xlarge", **more)
    run = stage.update()
    run.must(1, code, *said)
    # Nothing half-made is lost sight of: what was made is in the state, and a destroy finds all of it.
    stage.clear_faults()
    down = stage.down()
    down.must(0)
    if not down.document["changes"].get("delete"):
        raise DrillError(f"{code}: the destroy after it deleted nothing; expected what the update had made")
    return f"update failed in {run.seconds:.0f} s with {code}; destroy left nothing"
