"""Runs of the trainer on the ranks of a pool, without Ray: what they are told, and what they say."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from workloads.train.config import Config, validated
from workloads.train.events import Event
from workloads.train.prepare import Prepared, prepare
from workloads.train.trainer import Outcome, Trainer

LENGTH = 32


class Heard:
    """A reporter that keeps what it hears, and asks to stop at a step."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.events: list[Event] = []
        self._stop_at = stop_at

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def stop_asked(self) -> bool:
        steps = [event["step"] for event in self.events if event["event"] == "step"]
        return self._stop_at is not None and self._stop_at in steps

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event["event"] == kind]

    @property
    def losses(self) -> dict[object, object]:
        return {event["step"]: event["loss"] for event in self.of("step")}


def config(path: Path, *, nodes: int = 1, ranks: int = 2, **sections: Mapping[str, object]) -> Config:
    """Return a small run on synthetic tokens that keeps its checkpoints in a directory."""
    values: dict[str, dict[str, object]] = {
        "run": {
            "name": "run",
            "storage_path": f"{path}/store",
            "num_nodes": nodes,
            "gpus_per_node": ranks,
            "device": "cpu",
        },
        "model": {"name": "tiny-qwen2"},
        "train": {"steps": 8, "global_batch_tokens": LENGTH * 8},
        "data": {"source": "synthetic", "sequence_length": LENGTH, "cache_path": f"{path}/data", "held_out": 0},
        "optimizer": {"learning_rate": 3e-3},
        "precision": {"compute": "fp32"},
        "plan": {"micro_batch": 2},
        "checkpoint": {"every": 4},
        "transport": {"measure": False},
    }
    for name, section in sections.items():
        values[name] = {**values.get(name, {}), **section}
    return validated(values)


def run(
    rank: int, config: Config, stop_at: int | None = None, spoil: Callable[[Prepared], None] | None = None
) -> tuple[Outcome, Heard]:
    """Be a rank of a run; `spoil` changes it before its first step. What the process keeps is given back."""
    heard = Heard(stop_at if rank == 0 else None)
    try:
        trainer = Trainer(prepare(config, heard, node=f"node-{rank // config.run.ranks}", device=torch.device("cpu")))
        try:
            if spoil is not None:
                spoil(trainer.prepared)
            return trainer.to_the_end(), heard
        finally:
            trainer.close()
    finally:
        torch.use_deterministic_algorithms(False)


def refused(rank: int, config: Config, spoil: Callable[[Prepared], None] | None = None) -> str:
    """Be a rank of a run that fails on all ranks; return its words. The group lives on."""
    from workloads.train.errors import TrainingError

    try:
        run(rank, config, spoil=spoil)
    except TrainingError as error:
        return str(error)
    raise AssertionError("the run did not fail")


class Nan:
    """Let the loss of some micro-batches of one rank be no number: those whose number, counted from 0 over the run, is listed."""

    def __init__(self, rank: int, *calls: int) -> None:
        self._rank, self._calls = rank, calls

    def __call__(self, prepared: Prepared) -> None:
        count = iter(range(1_000_000))

        def spoil(_module: object, _inputs: object, output: tuple[torch.Tensor, Any]) -> tuple[torch.Tensor, Any]:
            loss, tokens = output
            return (loss * float("nan") if next(count) in self._calls else loss), tokens

        if dist.get_rank() == self._rank:
            prepared.module.register_forward_hook(spoil)
