"""Ranks that live as long as the tests want them: a gloo group is made once and used by many tests.

with pool(4) as ranks:
    losses = ranks(train_something, plan)   # train_something(rank, plan) on each; what they return, by rank
"""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import multiprocessing
import os
import tempfile
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, cast

SECONDS = 120
# One set of kernels on every processor, so that stored loss curves are those of every machine. Read when torch is loaded.
os.environ.setdefault("ATEN_CPU_CAPABILITY", "default")
os.environ.setdefault("MKL_CBWR", "COMPATIBLE")
os.environ.setdefault("OMP_NUM_THREADS", "1")


_LOADED = (
    "workloads.train.trainer",
    "transformers.models.qwen2.modeling_qwen2",
    "transformers.models.llama.modeling_llama",
)
"""What the ranks are forked with, as it takes seconds."""


class Ranks:
    """Processes of one gloo group. An error of one ends all, as the others may wait for it; the next call starts new ones."""

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self._processes: list[ForkServerProcess] = []
        self._ends: list[Connection] = []
        self._folder = tempfile.TemporaryDirectory(prefix="ranks-")
        self._groups = 0

    def __call__(self, do: Callable[..., Any], *arguments: object) -> list[Any]:
        """Call `do(rank, *arguments)` on every rank; return what they return, or raise what the first that failed raised."""
        if not self._processes:
            self._start()
        for end in self._ends:
            end.send((do, arguments))
        found: dict[int, Any] = {}
        while len(found) < self.world_size:
            waiting = [end for rank, end in enumerate(self._ends) if rank not in found]
            ready = cast(list[Connection], wait(waiting, timeout=SECONDS))
            if not ready:
                self.close()
                raise AssertionError(f"ranks said nothing for {SECONDS} s; {sorted(found)} are done")
            for end in ready:
                try:
                    good, value = end.recv()
                except EOFError as error:
                    rank = self._ends.index(end)
                    self.close()
                    raise AssertionError(f"rank {rank} died") from error
                if not good:
                    self.close()
                    raise value
                found[self._ends.index(end)] = value
        return [found[rank] for rank in range(self.world_size)]

    def _start(self) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*_LOADED])
        self._groups += 1
        meeting = Path(self._folder.name) / f"meeting-{self._groups}"
        for rank in range(self.world_size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_live, args=(rank, self.world_size, meeting, theirs), daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._ends.append(ours)

    def close(self) -> None:
        """End all ranks."""
        for process in self._processes:
            process.kill()
            process.join()
        self._processes, self._ends = [], []


@contextmanager
def pool(world_size: int) -> Generator[Ranks]:
    """Give so many ranks for as long as the block runs."""
    ranks = Ranks(world_size)
    try:
        yield ranks
    finally:
        ranks.close()


def _live(rank: int, world_size: int, meeting: Path, end: Connection) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    store = dist.FileStore(str(meeting), world_size)  # pyright: ignore[reportPrivateImportUsage] -- a documented name
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=timedelta(seconds=SECONDS))
    while True:
        try:
            do, arguments = end.recv()
        except EOFError:
            return
        try:
            end.send((True, do(rank, *arguments)))
        except BaseException as error:
            error.add_note(traceback.format_exc())
            end.send((False, error))
