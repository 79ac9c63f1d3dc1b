"""The training loop of one rank. It knows torch.distributed and nothing of Ray."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import math
import os
import socket
import time
from dataclasses import asdict, dataclass
from typing import cast

import torch
import torch.distributed as dist

from . import data
from .checkpoint import Checkpoints
from .errors import TrainingError
from .events import Reporter
from .manifest import Progress
from .model import Trained, build
from .options import Options
from .store import open_store

SEQUENCES_PER_RANK = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended. `seconds` and `tokens_per_second` are of the steps that this try trained."""

    status: str
    """succeeded, or stopped when somebody asked for it."""
    steps: int
    trained_steps: int
    first_loss: float | None
    last_loss: float | None
    seconds: float
    tokens_per_second: float
    checkpoint: str | None


def train(options: Options, reporter: Reporter, *, node: str, device: torch.device) -> Outcome:
    """Train to the last step, from the newest checkpoint on; every rank calls it in its process group.

    Raises:
        StoreError: the checkpoints cannot be read or written.
        TrainingError: the loss is not finite any more, or a fault point was reached.
    """
    speaks = dist.get_rank() == 0
    trained = build(device, dist.get_world_size())
    ranks = _ranks(node)
    if speaks:
        reporter.emit(_plan(options, trained, ranks, device))
    checkpoints = Checkpoints(open_store(options.storage_uri))
    progress, refused = checkpoints.resume(trained)
    if speaks and (progress or refused):
        reporter.emit(
            {"event": "resume", "step": progress.step if progress else 0, "uri": checkpoints.last, "refused": refused}
        )
    return _Run(options, reporter, trained, checkpoints, device).to_the_end(progress or Progress())


class _Run:
    def __init__(
        self, options: Options, reporter: Reporter, trained: Trained, checkpoints: Checkpoints, device: torch.device
    ) -> None:
        self._options = options
        self._reporter = reporter
        self._trained = trained
        self._checkpoints = checkpoints
        self._device = device
        self._source = data.MarkovSource()
        self._rank, self._world_size = dist.get_rank(), dist.get_world_size()

    def to_the_end(self, progress: Progress) -> Outcome:
        started, first = time.monotonic(), progress.step
        stopped = False
        while not stopped and progress.step < self._options.steps:
            progress, stopped = self._step(progress)
            if stopped or progress.step == self._options.steps or progress.step % self._options.checkpoint_every == 0:
                self._save(progress)
        seconds = time.monotonic() - started
        num_tokens = (progress.step - first) * self._world_size * SEQUENCES_PER_RANK * data.SEQUENCE
        return Outcome(
            status="stopped" if stopped and progress.step < self._options.steps else "succeeded",
            steps=progress.step,
            trained_steps=progress.step - first,
            first_loss=progress.first_loss,
            last_loss=progress.last_loss,
            seconds=round(seconds, 3),
            tokens_per_second=round(num_tokens / seconds, 1),
            checkpoint=self._checkpoints.last,
        )

    def _step(self, progress: Progress) -> tuple[Progress, bool]:
        """Train one step; return how far the run is, and whether it is asked to stop. All ranks return the same."""
        started = time.monotonic()
        step, position = progress.step + 1, progress.position
        if step == self._options.fail_at_step and self._rank == self._world_size - 1:
            raise TrainingError(f"fault point --fail-at-step={step}: raised by rank {self._rank}")
        tokens = self._source.batch(position + self._rank * SEQUENCES_PER_RANK, SEQUENCES_PER_RANK).to(self._device)
        loss = self._trained.loss(tokens)
        loss.backward()
        self._trained.optimizer.step()
        self._trained.optimizer.zero_grad()
        # One collective for both: whoever was asked to stop, all stop after the same step.
        shared = torch.stack([loss.detach(), loss.new_tensor(float(self._reporter.stop_asked()))])
        dist.all_reduce(shared)
        mean, stops = cast(list[float], (shared / self._world_size).tolist())
        if not math.isfinite(mean):
            raise TrainingError(f"the loss is {mean} in step {step}; allowed: a finite number")
        seconds, num_sequences = time.monotonic() - started, self._world_size * SEQUENCES_PER_RANK
        if self._rank == 0:
            self._reporter.emit(
                {
                    "event": "step",
                    "step": step,
                    "loss": mean,
                    "seconds": round(seconds, 4),
                    "tokens_per_second": round(num_sequences * data.SEQUENCE / seconds, 1),
                }
            )
        first_loss = mean if progress.first_loss is None else progress.first_loss
        return Progress(step=step, position=position + num_sequences, first_loss=first_loss, last_loss=mean), stops > 0

    def _save(self, progress: Progress) -> None:
        saved = self._checkpoints.save(self._trained, progress)
        if self._rank == 0:
            self._reporter.emit({"event": "checkpoint", **asdict(saved)})
        # Whatever a rank says from now on is heard after it: the last complete checkpoint is named in a failure.
        dist.barrier()


def _ranks(node: str) -> list[dict[str, object]]:
    """Return where each rank runs, on all ranks."""
    mine: dict[str, object] = {"rank": dist.get_rank(), "node": node, "host": socket.gethostname(), "pid": os.getpid()}
    found: list[dict[str, object]] = [mine] * dist.get_world_size()
    dist.all_gather_object(found, mine)
    return found


def _plan(
    options: Options, trained: Trained, ranks: list[dict[str, object]], device: torch.device
) -> dict[str, object]:
    return {
        "event": "plan",
        "run": options.run_name,
        "model": options.model,
        "parameters": trained.num_parameters,
        "parallel": "fsdp2",
        "device": device.type,
        "backend": dist.get_backend(),
        "network": options.network,
        "network_checked": False,
        "steps": options.steps,
        "tokens_per_step": len(ranks) * SEQUENCES_PER_RANK * data.SEQUENCE,
        "loss_of_a_guess": round(data.FIRST_LOSS, 4),
        "least_loss": round(data.LEAST_LOSS, 4),
        "checkpoints": options.storage_uri,
        "checkpoint_every": options.checkpoint_every,
        "ranks": ranks,
    }
