"""The training loop of one rank. It knows torch.distributed and nothing of Ray."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import gc
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import torch
import torch.distributed as dist

from .agreement import gathered
from .attention import count_documents
from .config import Config
from .data.batch import Batch
from .errors import TrainingError
from .evaluate import When
from .events import Reporter
from .finished import export
from .metrics import Meter
from .optimizer import clip, learning_rate, set_learning_rate
from .prepare import Prepared, prepare
from .transport.evidence import RankLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended. `seconds` and `tokens_per_second` are of the steps that this try trained."""

    status: str
    """succeeded, or stopped when somebody asked for it."""
    steps: int
    trained_steps: int
    skipped_steps: int
    first_loss: float | None
    last_loss: float | None
    seconds: float
    tokens_per_second: float
    checkpoint: str | None
    export: str | None
    """Where the finished model lies, as a Hugging Face folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One optimizer step, as all ranks know it."""

    loss: float
    """Mean over the tokens that count, of all ranks, in nats."""
    grad_norm: float
    learning_rate: float
    tokens: int
    skipped: bool
    stop_asked: bool


def train(
    config: Config, reporter: Reporter, *, node: str, device: torch.device, log: RankLog | None = None
) -> Outcome:
    """Train to the last step, from the newest checkpoint on; every rank calls it in its process group.

    Raises:
        StoreError: model, data or checkpoints cannot be read or written.
        TrainingError: the network is not what was asked for, a step is not to be trusted, or a fault point was reached.
    """
    trainer = Trainer(prepare(config, reporter, node=node, device=device, log=log))
    try:
        return trainer.to_the_end()
    finally:
        trainer.close()


class Trainer:
    """A prepared run, step by step."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        self._config = prepared.config
        self._device = prepared.device
        self._rank, self._world_size = dist.get_rank(), dist.get_world_size()
        self._meter = Meter(prepared.shape, self._config.data.sequence_length, prepared.device, self._world_size)
        resumed = prepared.resumed
        self.step_number = resumed.step if resumed else 0
        """Of the last step that was made."""
        extra: Mapping[str, Any] = resumed.extra if resumed else {}
        self._losses: tuple[float | None, float | None] = (extra.get("first_loss"), extra.get("last_loss"))
        self._before: Mapping[str, object] | None = extra.get("evaluated_before")
        """What the model was worth before the first step, of the run's first try."""

    def to_the_end(self) -> Outcome:
        """Train until the last step, or until somebody asks to stop; save, and return how it went."""
        self._evaluate("before")
        started, first, tokens, stopped = time.monotonic(), self.step_number, 0, False
        # Collections at different times on different ranks would stall all of them.
        gc.disable()
        self._meter.restart()
        while self.step_number < self._config.train.steps and not stopped:
            waited = self.prepared.loader.wait_seconds
            batches = self.prepared.loader.next_micro_batches()
            done = self.step(batches)
            tokens, stopped = tokens + done.tokens, done.stop_asked
            self._meter.add(
                tokens=done.tokens,
                positions=self._config.global_batch_tokens,
                data_wait=self.prepared.loader.wait_seconds - waited,
            )
            self._say(done)
            self._save(last=stopped or self.step_number == self._config.train.steps)
            if self.step_number % self._config.train.gc_every == 0:
                gc.collect(1)
        self.prepared.checkpoints.wait()
        seconds, exported = time.monotonic() - started, None
        if self.step_number >= self._config.train.steps:
            self._evaluate("after")
            exported = export(self.prepared)
        return Outcome(
            status="succeeded" if self.step_number >= self._config.train.steps else "stopped",
            steps=self.step_number,
            trained_steps=self.step_number - first,
            skipped_steps=self.prepared.anomalies.skipped,
            first_loss=self._losses[0],
            last_loss=self._losses[1],
            seconds=round(seconds, 3),
            tokens_per_second=round(tokens / seconds, 1),
            checkpoint=self.prepared.checkpoints.last,
            export=exported,
        )

    def step(self, batches: Sequence[Batch]) -> Step:
        """Make one optimizer step of this rank's micro-batches. The host waits for the device once, at the end.

        The loss that is minimised is the mean over all tokens that count, of all ranks and micro-batches: each backward is divided by
        their number, not by that of its own.

        Raises:
            TrainingError: the step is not to be trusted, on all ranks; the text names step and batch.
        """
        prepared, number = self.prepared, self.step_number + 1
        counted = torch.tensor(sum(batch.num_tokens for batch in batches), dtype=torch.float64).to(
            self._device, non_blocking=True
        )
        divisor = counted.clone()
        dist.all_reduce(divisor)
        # FSDP averages over the ranks.
        scale = (self._world_size / divisor.clamp(min=1.0)).float()
        parts: list[torch.Tensor] = []
        for index, batch in enumerate(batches):
            prepared.parallel.before(last=index == len(batches) - 1)
            documents, here = count_documents(batch.position_ids), batch.to(self._device)
            loss, _ = prepared.module(here.input_ids, here.position_ids, here.labels, documents)
            (loss * scale).backward()
            parts.append(loss.detach())
        prepared.parallel.after()
        norm = clip(prepared.module.parameters(), self._config.optimizer.clip_norm)
        rate = learning_rate(self._config.optimizer, number, self._config.train.steps)
        set_learning_rate(prepared.optimizer, rate)
        if not prepared.anomalies.may_skip:
            # What is wrong ends the run, unsaved: so the device need not wait until it is judged.
            prepared.optimizer.step()
        summed, stops, shared_norm = self._shared(torch.stack(parts).sum(), norm)
        tokens = int(divisor.item())
        mean = summed / max(1, tokens)
        problem = prepared.anomalies.judge(mean, shared_norm)
        if problem is not None:
            self._refuse(number, problem, parts)
        elif prepared.anomalies.may_skip:
            prepared.optimizer.step()
        prepared.optimizer.zero_grad()
        self.step_number = number
        prepared.faults.reach(f"after-step-{number}")
        if problem is None:
            self._losses = (mean if self._losses[0] is None else self._losses[0], mean)
        return Step(
            loss=mean,
            grad_norm=shared_norm,
            learning_rate=rate,
            tokens=tokens,
            skipped=problem is not None,
            stop_asked=stops > 0,
        )

    def _shared(self, loss: torch.Tensor, norm: torch.Tensor) -> tuple[float, float, float]:
        """Return the loss summed over all ranks, how many are asked to stop, and the norm: the same on all, in one collective.

        The norm is rank 0's, so that no rounding lets ranks decide differently.
        """
        asked = float(self.prepared.reporter.stop_asked())
        own_norm = norm.double() if self._rank == 0 else torch.zeros_like(norm, dtype=torch.float64)
        mine = torch.stack([loss.double(), own_norm.new_tensor(asked), own_norm])
        dist.all_reduce(mine)
        summed, stops, shared = cast(list[float], mine.tolist())
        return summed, stops, shared

    def _refuse(self, number: int, problem: str, parts: list[torch.Tensor]) -> None:
        """Leave a step out, or end the run, naming the sequences whose loss is no number."""
        anomalies = self.prepared.anomalies
        goes_on = anomalies.may_skip and anomalies.skip()
        bad = [
            index
            for index, loss in enumerate(cast(list[float], torch.stack(parts).tolist()))
            if not math.isfinite(loss)
        ]
        position = self.prepared.loader.state.position - self.prepared.loader.sequences_per_step
        numbers = self.prepared.loader.numbers(position)
        mine = [
            f"rank {self._rank}, micro-batch {index + 1} of {len(parts)}, sequences {', '.join(map(str, numbers[index]))}"
            for index in bad
        ]
        where = "; ".join([line for lines in gathered(mine) for line in lines][:4])
        text = f"step {number}: {problem}; " + (
            f"no number from {where}" if where else "every micro-batch has a finite loss"
        )
        if not goes_on:
            todo = (
                f"{anomalies.in_a_row} steps in a row were left out, as many as anomaly.most_skipped allows"
                if anomalies.may_skip
                else "lower optimizer.learning_rate, look at the data, or set anomaly.action to skip"
            )
            raise TrainingError(f"{text}; {todo}")
        if self._rank == 0:
            self.prepared.reporter.emit({"event": "anomaly", "step": number, "action": "skip", "reason": text})

    def _evaluate(self, when: When) -> None:
        """Evaluate and say it; a run that goes on says again what its first try found before it."""
        evaluator = self.prepared.evaluator
        if evaluator is None:
            return
        if when == "after" or self._before is None:
            found = evaluator.evaluate(self.prepared.module, when=when, step=self.step_number).event()
            if when == "before":
                self._before = found
        else:
            found = self._before
        if self._rank == 0:
            self.prepared.reporter.emit(found)

    def _say(self, done: Step) -> None:
        if self.step_number % self._config.train.log_every and self.step_number != self._config.train.steps:
            return
        metrics = self._meter.read(
            step=self.step_number,
            loss=done.loss,
            grad_norm=done.grad_norm,
            learning_rate=done.learning_rate,
            tokens=done.tokens,
            skipped=done.skipped,
        )
        if self._rank == 0:
            self.prepared.reporter.emit(metrics.event())

    def _save(self, *, last: bool) -> None:
        prepared = self.prepared
        prepared.checkpoints.poll()
        # An optimizer that has skipped every step has nothing to save.
        if not prepared.optimizer.state or not (last or self.step_number % self._config.checkpoint.every == 0):
            return
        if prepared.watch is not None:
            # Before it counts: steps over a network that was not asked for are no evidence.
            prepared.watch.look()
        extra: dict[str, object] = {
            "data": asdict(prepared.loader.state),
            "plan": prepared.plan.to_json(),
            "anomalies": prepared.anomalies.state(),
            "first_loss": self._losses[0],
            "last_loss": self._losses[1],
            "evaluated_before": self._before,
        }
        prepared.checkpoints.save(self.step_number, prepared.module, prepared.optimizer, extra, last=last)

    def close(self) -> None:
        """Give back what the run holds."""
        gc.enable()
        self.prepared.loader.close()
        self.prepared.checkpoints.close()
