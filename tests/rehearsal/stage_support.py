"""One stage for every test that brings a stack up: they run in one worker, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rehearsal.drills.stage import Stage

TOGETHER = pytest.mark.xdist_group("stage")


@pytest.fixture(scope="session")
def shared_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Give a stage with a world of its own, and take both down when the last test has ended."""
    stage = Stage(tmp_path_factory.mktemp("stage"))
    try:
        yield stage
    finally:
        stage.close()


@pytest.fixture
def stage(shared_stage: Stage) -> Stage:
    """Give the stage with the program as the repository has it."""
    shared_stage.restore()
    return shared_stage
