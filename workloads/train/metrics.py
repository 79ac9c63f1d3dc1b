"""What a step was: numbers for programs, and one line for people."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import time
from dataclasses import asdict, dataclass
from typing import Any, cast

import torch

from .events import Event
from .model_shape import ModelShape
from .plan.flops import flops_per_token
from .plan.hardware import card_of

_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMetrics:
    """One logged step; rates are of all steps since the one logged before it."""

    step: int
    loss: float
    """Mean over all tokens that count, of all ranks, in nats."""
    grad_norm: float
    """Of the whole gradient, before clipping."""
    learning_rate: float
    tokens: int
    """That counted in this step: no padding."""
    skipped: bool
    """The weights were left as they were."""
    seconds: float
    """Of a step, from one end to the next."""
    tokens_per_second: float
    tokens_per_second_per_rank: float
    mfu: float | None
    """Model FLOPs, recomputation not counted, of all positions over the card's dense bf16 peak; None on a CPU."""
    memory_bytes: int | None
    """Most that the allocator held on this rank since the step logged before; None on a CPU."""
    data_wait: float
    """Seconds of a step in which rank 0 waited for data."""

    def event(self) -> Event:
        """Return the event of it."""
        return {"event": "step", **asdict(self)}

    @classmethod
    def of(cls, event: Event) -> "StepMetrics":
        """Return the metrics that an event was made of."""
        return cls(**{name: cast(Any, value) for name, value in event.items() if name != "event"})

    def line(self) -> str:
        """Return one line for people."""
        parts = [
            f"step {self.step:6}",
            f"loss {self.loss:8.4f}",
            f"norm {self.grad_norm:9.3g}",
            f"lr {self.learning_rate:.2e}",
            f"{short(self.tokens_per_second)} tokens/s ({short(self.tokens_per_second_per_rank)} a rank)",
            f"{self.seconds:.3f} s",
        ]
        if self.mfu is not None:
            parts.append(f"mfu {self.mfu:.1%}")
        if self.memory_bytes is not None:
            parts.append(f"{self.memory_bytes / 2**30:.1f} GiB")
        if self.data_wait >= 0.001:
            parts.append(f"data wait {self.data_wait:.3f} s")
        if self.skipped:
            parts.append("SKIPPED")
        return "  ".join(parts)


def short(value: float) -> str:
    """Return a number of three digits with a unit: 28134 -> 28.1k."""
    for size, unit in _UNITS:
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


class Meter:
    """Rates between two logged steps."""

    def __init__(self, shape: ModelShape, sequence_length: int, device: torch.device, world_size: int) -> None:
        self._flops = flops_per_token(shape, sequence_length)
        self._device, self._world_size = device, world_size
        self._peak = card_of(torch.cuda.get_device_name(device)).peak_flops if device.type == "cuda" else None
        self.restart()

    def restart(self) -> None:
        """Forget what was before: an evaluation or a checkpoint is no part of a step."""
        self._since, self._steps, self._tokens, self._positions, self._wait = time.monotonic(), 0, 0, 0, 0.0
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)

    def add(self, *, tokens: int, positions: int, data_wait: float) -> None:
        """Count a step: tokens that count and all positions, both of all ranks."""
        self._steps += 1
        self._tokens += tokens
        self._positions += positions
        self._wait += data_wait

    def read(
        self, *, step: int, loss: float, grad_norm: float, learning_rate: float, tokens: int, skipped: bool
    ) -> StepMetrics:
        """Return the metrics of the steps since the last reading, and begin anew. The device has ended them."""
        seconds = time.monotonic() - self._since
        rate, positions = self._tokens / seconds, self._positions / seconds
        found = StepMetrics(
            step=step,
            loss=loss,
            grad_norm=grad_norm,
            learning_rate=learning_rate,
            tokens=tokens,
            skipped=skipped,
            seconds=round(seconds / self._steps, 4),
            tokens_per_second=round(rate, 1),
            tokens_per_second_per_rank=round(rate / self._world_size, 1),
            mfu=round(positions * self._flops / self._peak / self._world_size, 4) if self._peak else None,
            memory_bytes=torch.cuda.max_memory_reserved(self._device) if self._device.type == "cuda" else None,
            data_wait=round(self._wait / self._steps, 4),
        )
        self.restart()
        return found
