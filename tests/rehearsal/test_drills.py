"""Each drill, as `make drills` holds it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rehearsal.drills.command import table
from rehearsal.drills.drills import DRILLS, Drill, Outcome, hold
from rehearsal.drills.stage import DrillError, Run, Stage
from tests.rehearsal.stage_support import TOGETHER, shared_stage, stage

__all__ = ["shared_stage", "stage"]


@TOGETHER
@pytest.mark.drill
@pytest.mark.parametrize("drill", DRILLS, ids=[drill.name for drill in DRILLS])
def test_drill(drill: Drill, stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = hold(drill, stage)
    with capsys.disabled():
        print(f"\n{outcome.drill}: {outcome.happened} ({outcome.seconds:.0f} s)")
    assert outcome.good, outcome.happened


def test_every_drill_says_what_its_fault_is() -> None:
    assert all(drill.about for drill in DRILLS)
    assert len({drill.name for drill in DRILLS}) == len(DRILLS)


def test_the_table_tells_a_failed_drill_from_a_good_one() -> None:
    outcomes = [
        Outcome(drill="a", about="fault", good=True, happened="fine", seconds=1.4),
        Outcome(drill="b", about="fault", good=False, happened="not so", seconds=2.0),
    ]
    assert [list(column.cells) for column in table(outcomes).columns] == [
        ["a: fault", "b: fault"],
        ["fine", "not so"],
        ["1", "2"],
        ["nothing", "unknown: the drill failed"],
    ]


@pytest.mark.parametrize(
    ("status", "said", "reason"), [(1, "", "exit status 0, expected 1"), (0, "quota", "did not say 'quota'")]
)
def test_a_run_that_ended_otherwise_fails_its_drill(status: int, said: str, reason: str) -> None:
    run = Run(command="up", status=0, seconds=1.0, document={"errors": ["capacity"]}, told="shown")
    run.must(0, "capacity", "shown")
    with pytest.raises(DrillError, match=reason):
        run.must(status, said)


def test_an_unknown_drill_is_refused_before_anything_starts() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rehearsal", "drills", "no-such"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("drill: found no-such; allowed: no-capacity, ")
