"""One rank's part of a save, in the background: write each file while its hash is computed, then give it to the store."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportMissingParameterType=false, reportUnknownParameterType=false

import hashlib
import io
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import cast

from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystem
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan, WriteItem
from torch.distributed.checkpoint.storage import WriteResult

from ..errors import StoreError
from .layout import writer
from .manifest import File, describe
from .staging import Data, Staged
from .store import Store

IN_UPLOAD = "checkpoint-in-upload"
"""Fault point, in a thread: a rank has uploaded one of its files."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one rank wrote."""

    files: tuple[File, ...]
    results: tuple[WriteResult, ...]


class Upload:
    """The files of one rank and save. Made on the main thread; from then on threads of the pool work on it, without any collective."""

    def __init__(
        self,
        store: Store,
        folder: str,
        staged: Staged,
        plans: Sequence[SavePlan],
        others: Mapping[str, Path],
        *,
        directory: Path,
        pool: ThreadPoolExecutor,
        reach: Callable[[str], None],
    ) -> None:
        self._store, self._folder, self._staged, self._directory, self._reach = store, folder, staged, directory, reach
        self._jobs: list[Future[Part]] = [pool.submit(self._shard, plan) for plan in plans]
        self._jobs += [pool.submit(self._other, name, path) for name, path in others.items()]

    @property
    def done(self) -> bool:
        """Tell whether this rank has nothing more to do, well or not."""
        return all(job.done() for job in self._jobs)

    def wait(self) -> None:
        """Wait until it is done, well or not."""
        for job in self._jobs:
            job.exception()

    def part(self) -> Part:
        """Return what was written; wait for it.

        Raises:
            StoreError: a file could not be written or uploaded.
        """
        self.wait()
        parts = [job.result() for job in self._jobs]
        return Part(
            tuple(file for part in parts for file in part.files),
            tuple(result for part in parts for result in part.results),
        )

    def _shard(self, plan: SavePlan) -> Part:
        self._staged.ready()
        hashing = _Hashing()
        target = writer(self._directory)
        target.fs = hashing
        try:
            results = target.write_data(plan, _Found(self._staged.data)).wait()
        except (OSError, RuntimeError) as error:
            # torch says an error of the disk in words of its own.
            reason = " ".join(str(hashing.error or error).split())
            raise StoreError(f"local directory {self._directory}: cannot write a checkpoint: {reason}") from error
        ((path, file),) = hashing.files.items()
        self._put(path, file.name)
        path.unlink()
        return Part((file,), tuple(results))

    def _other(self, name: str, path: Path) -> Part:
        try:
            file = describe(path, name)
        except OSError as error:
            raise StoreError(f"{path}: cannot be read for the checkpoint: {error}") from error
        self._put(path, name)
        return Part((file,), ())

    def _put(self, path: Path, name: str) -> None:
        self._store.put(path, f"{self._folder}/{name}")
        self._reach(IN_UPLOAD)


class _Found(DefaultSavePlanner):
    """A planner that takes what was staged."""

    def __init__(self, data: Mapping[MetadataIndex, Data]) -> None:
        super().__init__()
        self._data = data

    def resolve_data(self, write_item: WriteItem) -> Data:
        return self._data[write_item.index]


class _Hashing(FileSystem):
    """A file system that hashes what is written: reading it again would cost as much as writing it."""

    def __init__(self) -> None:
        self.files: dict[Path, File] = {}
        self.error: OSError | None = None

    @contextmanager
    def create_stream(self, path: str | PathLike[str], mode: str) -> Generator[io.IOBase, None, None]:
        where = Path(path)
        with where.open(mode) as raw:
            stream = _HashedStream(cast(io.BufferedWriter, raw))
            try:
                yield stream
                stream.flush()
            finally:
                self.error = stream.error
        self.files[where] = File(name=where.name, bytes=stream.count, sha256=stream.digest.hexdigest())


class _HashedStream(io.RawIOBase):
    def __init__(self, raw: io.BufferedWriter) -> None:
        self._raw = raw
        self.digest = hashlib.sha256()
        self.count = 0
        self.error: OSError | None = None

    def write(self, data: "bytes | memoryview", /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] -- what torch gives
        try:
            self._raw.write(data)
        except OSError as error:
            self.error = self.error or error
            raise
        self.digest.update(data)
        self.count += len(data)
        return len(data)

    def tell(self) -> int:
        return self.count

    def flush(self) -> None:
        if not self._raw.closed:
            try:
                self._raw.flush()
            except OSError as error:
                self.error = self.error or error
                raise

    def writable(self) -> bool:
        return True
