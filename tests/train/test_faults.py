"""Faults on purpose happen at their point, to their rank, once where asked for."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from workloads.train.errors import TrainingError
from workloads.train.faults import Faults, from_environment
from workloads.train.sections import FaultConfig


def test_the_last_rank_meets_the_fault_of_a_step() -> None:
    config = FaultConfig(point="after-step-3")
    for rank in range(3):
        Faults(config, rank=rank, world_size=4).reach("after-step-3")
    last = Faults(config, rank=3, world_size=4)
    last.reach("after-step-2")
    with pytest.raises(TrainingError, match=r"^fault point after-step-3: raised by rank 3$"):
        last.reach("after-step-3")


def test_rank_0_meets_those_that_are_its_alone() -> None:
    config = FaultConfig(point="between-shard-and-marker")
    Faults(config, rank=3, world_size=4).reach("between-shard-and-marker")
    with pytest.raises(TrainingError):
        Faults(config, rank=0, world_size=4).reach("between-shard-and-marker")


def test_a_fault_that_happens_once(tmp_path: Path) -> None:
    faults = Faults(FaultConfig(point="after-step-1", once_file=f"{tmp_path}/done"), rank=0, world_size=1)
    with pytest.raises(TrainingError):
        faults.reach("after-step-1")
    faults.reach("after-step-1")


def test_kill_is_sigkill_to_the_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    with pytest.raises(TrainingError):
        Faults(FaultConfig(point="after-step-1", action="kill", rank=1), rank=1, world_size=4).reach("after-step-1")
    assert sent == [(os.getpid(), signal.SIGKILL)]


def test_the_environment_names_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    assert from_environment(FaultConfig(point="after-step-1")).point == "after-step-1"
    monkeypatch.setenv("TRAIN_FAULT", "between-marker-and-prune:kill:2")
    found: Any = from_environment(FaultConfig(point="after-step-1"))
    assert (found.point, found.action, found.rank) == ("between-marker-and-prune", "kill", 2)


@pytest.mark.parametrize("said", ["later", "after-step-0", "after-step-1:freeze", "after-step-1:kill:last"])
def test_the_environment_names_none(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("TRAIN_FAULT", said)
    with pytest.raises(TrainingError, match=r"^TRAIN_FAULT: found "):
        from_environment(FaultConfig())
