"""Ranks without Ray: processes with a gloo group, forked from one that has torch and the model's code already."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import multiprocessing
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Protocol, cast

import torch
import torch.distributed as dist

from workloads.train.events import Event
from workloads.train.loop import Outcome, train
from workloads.train.options import CPU, MODEL, Options

OPTIONS = Options(
    model=MODEL,
    storage_path="/nowhere",
    run_name="run",
    num_nodes=2,
    gpus_per_node=4,
    ranks_per_node=1,
    network="efa",
    device=CPU,
    steps=8,
    checkpoint_every=4,
    max_restarts=0,
    fail_at_step=None,
)
SECONDS = 120


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


@contextmanager
def group(rank: int, world_size: int, meeting: Path) -> Generator[None]:
    """Be a rank of a gloo group, for as long as the block runs."""
    torch.set_num_threads(1)
    store = dist.FileStore(str(meeting), world_size)  # pyright: ignore[reportPrivateImportUsage] -- a documented name
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=timedelta(seconds=SECONDS))
    try:
        yield
    finally:
        dist.destroy_process_group()


def run(options: Options, *, world_size: int, meeting: Path, stop_at: int | None = None) -> tuple[Outcome, Heard]:
    """Train on so many ranks; return what rank 0 says. An error of a rank is raised here, rank 0's first."""
    found = together(_train, world_size, meeting, options, stop_at)
    return found[0]


def _train(rank: int, options: Options, stop_at: int | None) -> tuple[Outcome, Heard]:
    heard = Heard(stop_at if rank == 0 else None)
    return train(options, heard, node=f"node-{rank}", device=torch.device(CPU)), heard


def together(do: Callable[..., Any], world_size: int, meeting: Path, *arguments: object) -> list[Any]:
    """Call `do(rank, *arguments)` on every rank of a group and return what they return.

    As with Ray, the others are ended when one raises: they may wait for it in a collective.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    pipes = [context.Pipe(duplex=False) for _ in range(world_size)]
    processes = [
        context.Process(target=_be, args=(do, rank, world_size, meeting, pipes[rank][1], arguments), daemon=True)
        for rank in range(world_size)
    ]
    for process in processes:
        process.start()
    try:
        found: dict[int, Any] = {}
        waiting = {receive.fileno(): (rank, receive) for rank, (receive, _) in enumerate(pipes)}
        while waiting:
            ready = cast(list[int], wait(list(waiting), timeout=SECONDS))
            assert ready, f"ranks {sorted(rank for rank, _ in waiting.values())} said nothing for {SECONDS} s"
            for number in ready:
                rank, receive = waiting.pop(number)
                good, value = cast(tuple[bool, Any], receive.recv())
                if not good:
                    raise value
                found[rank] = value
        return [found[rank] for rank in range(world_size)]
    finally:
        for process in processes:
            # All have answered, or the rest waits for one that failed.
            process.kill()
            process.join()


class _Answer(Protocol):
    def send(self, value: object, /) -> None: ...


def _be(
    do: Callable[..., Any], rank: int, world_size: int, meeting: Path, answer: _Answer, arguments: tuple[Any, ...]
) -> None:
    with group(rank, world_size, meeting):
        try:
            answer.send((True, do(rank, *arguments)))
        except BaseException as error:
            error.add_note(traceback.format_exc())
            answer.send((False, error))
            # The group stays: what the others would say of its end is not what is asked for. The parent ends this process.
            time.sleep(SECONDS)


def below(path: Path, **changes: Any) -> Options:
    """Return options of a run that keeps its checkpoints in a directory."""
    return replace(OPTIONS, storage_path=str(path), **changes)
