"""Faults on purpose, at named points. A drill says where; no test waits for a moment that may not come.

after-step-K                the optimizer has made step K; nothing of it is saved or said
between-shard-and-marker    all shards of a checkpoint are in the store, its manifest is not; rank 0 alone comes by
between-marker-and-prune    the manifest is there, older checkpoints too; rank 0 alone comes by
"""

import os
import signal
from pathlib import Path

from pydantic import ValidationError

from .errors import TrainingError, UsageError
from .failures import one_line
from .sections import FaultConfig

ENVIRONMENT = "TRAIN_FAULT"
"""POINT or POINT:ACTION or POINT:ACTION:RANK."""


def from_environment(config: FaultConfig) -> FaultConfig:
    """Return the fault that the environment names, or that of the configuration. Raises UsageError for what is none."""
    found = os.environ.get(ENVIRONMENT)
    if not found:
        return config
    keys = dict(zip(("point", "action", "rank"), found.split(":"), strict=False))
    try:
        made = FaultConfig.model_validate({**keys, "once_file": config.once_file})
    except ValidationError as error:
        raise UsageError(f"{ENVIRONMENT}: found {found!r}: {one_line(error)}; allowed: POINT:ACTION:RANK") from error
    if problems := made.problems():
        raise UsageError(problems[0].replace("fault.point", ENVIRONMENT))
    return made


class Faults:
    """The fault of this run, as one rank meets it."""

    def __init__(self, config: FaultConfig, *, rank: int, world_size: int) -> None:
        self._config = config
        self._rank = rank
        last = world_size - 1 if config.point and config.point.startswith("after-step-") else 0
        self._its = last if config.rank is None else config.rank

    def reach(self, point: str) -> None:
        """Come by a point; where the fault is for it, this does not return.

        Raises:
            TrainingError: the fault is to be one.
        """
        if point != self._config.point or self._rank != self._its:
            return
        if self._config.once_file is not None:
            path = Path(self._config.once_file)
            if path.exists():
                return
            path.touch()
        if self._config.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise TrainingError(f"fault point {point}: raised by rank {self._rank}")
