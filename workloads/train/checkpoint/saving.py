"""Save beside the training, commit by a manifest.

A save copies this rank's shards into host memory and returns; threads write and upload them. At a later step, when all ranks say that
theirs are in the store, rank 0 writes the manifest: that is the commit. Collectives are on the main thread alone.
"""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist

from ..agreement import collect, each, first_rank, on_all
from ..errors import StoreError, TrainingError
from ..events import Event
from . import rng
from .commit import Committed, check_extra, clear, commit, empty, write_metadata
from .config import CheckpointConfig
from .local import LocalDirectory
from .manifest import NAME, Manifest, folder
from .outcome import Outcome
from .shards import Copy, Shards
from .state import State, blank, fingerprints, state_of
from .store import Store
from .upload import Part, Upload


def _nothing(_: object) -> None:
    return None


@dataclass(slots=True)
class _Flight:
    """A save under way."""

    step: int
    extra: Mapping[str, object]
    fingerprints: Mapping[str, str]
    copy: Copy
    upload: Upload
    directory: Path
    started: float
    stall: float = field(default=0.0)


class Saving:
    """Save the state of a run; see `checkpoints.Checkpoints`, which also resumes."""

    def __init__(
        self,
        store: Store,
        config: CheckpointConfig,
        *,
        identity: Mapping[str, str] | None = None,
        files: Mapping[str, Path | bytes] | None = None,
        tell: Callable[[Event], None] = _nothing,
        reach: Callable[[str], None] = _nothing,
    ) -> None:
        self.store, self.config, self.identity = store, config, dict(identity or {})
        self._files, self._tell, self._reach = dict(files or {}), tell, reach
        self._rank, self._world_size = dist.get_rank(), dist.get_world_size()
        self._local = each(lambda: LocalDirectory(config.local_path, self._rank))
        self._pool = ThreadPoolExecutor(config.streams, thread_name_prefix="checkpoint")
        self._shards = Shards(config.streams)
        self._flight: _Flight | None = None
        self._failures = 0
        self._last_step: int | None = None
        self._owed: str | None = None
        self.last: str | None = None
        """Where the newest complete checkpoint is."""
        self.damaged: set[str] = set()
        """Folders that `resume` found to be not as they were written."""
        self.refused: tuple[str, ...] = ()
        """What `resume` passed over as incomplete or damaged, each with its reason; also where it found nothing to load."""
        self.outcomes: list[Outcome] = []
        """What became of every save of this process."""

    def prepare(self, module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
        """Make the host buffers, so that the first save does not; return their bytes on this rank."""
        fresh = not optimizer.state
        state = state_of(module, optimizer)
        self._shards.hold(state)
        if fresh:
            blank(optimizer)
        return self._shards.bytes

    def save(
        self,
        step: int,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        extra: Mapping[str, object],
        *,
        last: bool = False,
    ) -> None:
        """Begin to save; training may go on when this returns, `poll` ends it.

        Where a save is under way it is waited for, or this one is skipped, as the settings say; the `last` one is never skipped. A step
        that is saved already is not saved again. `extra` is JSON.

        What changes outside of `optimizer.step` must not be part of the state: on a GPU the copies overlap with the next forward and
        backward pass, and the next `optimizer.step` waits for them on the GPU.

        Raises:
            StoreError: so many saves in a row have failed as the settings allow; the text names the last complete checkpoint.
            TrainingError: the optimizer has not made a step, or `extra` is no JSON.
        """
        started = time.monotonic()
        if step == self._last_step or (self._flight is not None and self._flight.step == step):
            return
        if self._flight is not None:
            if self.config.when_busy == "skip" and not last and not on_all(self._flight.upload.done):
                reason = f"the save of step {self._flight.step} is not durable yet"
                self._conclude(Outcome(status="skipped", step=step, uri=self.last, reason=reason))
                return
            self._settle()
        check_extra(step, extra)
        fresh = not optimizer.state
        state = state_of(module, optimizer)
        if fresh and optimizer.state:
            blank(optimizer)
            raise TrainingError(
                f"checkpoint of step {step}: found an optimizer that has made no step; allowed: one that has; save after the first step"
            )
        self._begin(step, state, optimizer, extra, started)

    def poll(self) -> None:
        """Commit the save under way if all ranks have uploaded their part; called at every step, a 4-byte all-reduce while one is.

        Raises:
            StoreError: as `save`.
        """
        flight, started = self._flight, time.monotonic()
        if flight is None:
            return
        done = on_all(flight.upload.done)
        flight.stall += time.monotonic() - started
        if done:
            self._settle()

    def wait(self) -> None:
        """Wait until the last save is durable; called at the end of a run.

        Raises:
            StoreError: it is not, with the reason and the last complete checkpoint.
        """
        self.settle()
        if self._owed is not None:
            raise StoreError(f"the last checkpoint is not durable: {self._owed}; {self._last_words()}")

    def close(self) -> None:
        """Give host memory and local files back; a save under way is given up. No collective."""
        self._pool.shutdown(cancel_futures=True)
        if self._flight is not None:
            self._flight.copy.let_go()
        self._shards.close()
        self._local.remove()

    def settle(self) -> None:
        """End the save under way, if there is one. Raises StoreError as `save`."""
        if self._flight is not None:
            self._settle()

    def accept(self, manifest: Manifest) -> None:
        """Take a checkpoint that was loaded as the last complete one."""
        self.last, self._last_step, self._owed = f"{self.store.uri}/{manifest.folder}", manifest.step, None

    def _begin(
        self, step: int, state: State, optimizer: torch.optim.Optimizer, extra: Mapping[str, object], started: float
    ) -> None:
        name = folder(step)
        directory = self._local.path / name
        try:
            if name in self.damaged:
                # It must not count while its files change.
                first_rank(lambda: self.store.delete([f"{name}/{NAME}"]))
            others = each(lambda: self._others(directory))
        except StoreError as error:
            self._drop(step, str(error), started, time.monotonic() - started)
            return
        copy = self._shards.copy(state, optimizer)
        upload = Upload(
            self.store,
            name,
            copy.staged,
            copy.layout.files,
            others,
            directory=directory,
            pool=self._pool,
            reach=self._reach,
        )
        prints = {**self.identity, **fingerprints(state, optimizer)}
        self._flight = _Flight(step, dict(extra), prints, copy, upload, directory, started)
        self._flight.stall = time.monotonic() - started

    def _others(self, directory: Path) -> dict[str, Path]:
        """Write the small files that go beside this rank's shards."""
        others: dict[str, Path] = {}
        texts = {f"rng-{self._rank:05}.json": rng.capture().encode()}
        for name, content in self._files.items() if self._rank == 0 else ():
            if isinstance(content, Path):
                others[f"model/{name}"] = content
            else:
                texts[f"model/{name}"] = content
        try:
            for name, content in texts.items():
                others[name] = directory / name
                others[name].parent.mkdir(parents=True, exist_ok=True)
                others[name].write_bytes(content)
        except OSError as error:
            raise StoreError(f"local directory {directory}: cannot write a checkpoint: {error}") from error
        return others

    def _settle(self) -> None:
        """End the save under way: it counts, or is dropped and counted."""
        flight, began = self._flight, time.monotonic()
        assert flight is not None  # noqa: S101 -- callers looked
        self._flight = None
        try:
            parts = collect(each(flight.upload.part))
            done = first_rank(lambda: self._commit(flight, parts or []))
        except StoreError as error:
            self._drop(flight.step, str(error), flight.started, flight.stall + time.monotonic() - began)
            return
        finally:
            flight.copy.let_go()
            empty(flight.directory)
        self._failures, self._owed, self._last_step = 0, None, flight.step
        self.last = f"{self.store.uri}/{folder(flight.step)}"
        now = time.monotonic()
        self._conclude(
            Outcome(
                status="saved",
                step=flight.step,
                uri=self.last,
                reason=done.unpruned,
                num_files=done.num_files,
                bytes=done.bytes,
                seconds=round(now - flight.started, 3),
                stall_seconds=round(flight.stall + now - began, 3),
                pinned=self._shards.pinned,
            )
        )

    def _commit(self, flight: _Flight, parts: list[Part]) -> Committed:
        """Write what makes a checkpoint of all ranks' parts; on rank 0."""
        assert flight.copy.layout.metadata is not None  # noqa: S101 -- rank 0 has it
        results = [part.results for part in parts]
        metadata = write_metadata(
            self.store, folder(flight.step), flight.directory, flight.copy.layout.metadata, results
        )
        manifest = Manifest(
            step=flight.step,
            world_size=self._world_size,
            fingerprints=flight.fingerprints,
            extra=flight.extra,
            files=(*(file for part in parts for file in part.files), metadata),
        )
        return commit(
            self.store,
            manifest,
            flight.directory,
            keep=self.config.keep,
            damaged=self.damaged,
            reach=self._reach,
        )

    def _drop(self, step: int, reason: str, started: float, stall: float) -> None:
        """Count a save that failed, remove what is there of it, and end the run where it is one too many."""
        self._owed = reason = reason + first_rank(lambda: clear(self.store, step))
        self._failures += 1
        self._conclude(
            Outcome(
                status="dropped",
                step=step,
                uri=self.last,
                reason=reason,
                seconds=round(time.monotonic() - started, 3),
                stall_seconds=round(stall, 3),
            )
        )
        if self._failures >= self.config.max_failures:
            raise StoreError(
                f"{self._failures} checkpoints in a row could not be written: {reason}; {self._last_words()}"
            )

    def _conclude(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        if self._rank == 0:
            self._tell(outcome.event())

    def _last_words(self) -> str:
        return f"last complete checkpoint: {self.last or 'none'}"
