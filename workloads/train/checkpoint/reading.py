"""Read a checkpoint: each node copies each file that one of its ranks needs once, and checks it before anything is filled in."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import errno
import fcntl
import hashlib
import shutil
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Protocol, cast

from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.planner import LoadPlan

from ..errors import StoreError
from .local import CACHE, base, share
from .manifest import File, Manifest, describe
from .state import MODEL
from .store import Store

METADATA = ".metadata"


_OUR_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""What a copy ends with where the fault is this node's disk, not the store."""


class DamagedError(Exception):
    """Name what is not as it was written."""

    kind = "damaged"


class UnreadableError(DamagedError):
    """Say why a file that the store lists cannot be read from it; another time it may."""

    kind = "unreadable"


class Cache:
    """The files of one checkpoint on this node's disk, for all ranks of the node.

    Its name is the manifest's hash, so it never holds files of another checkpoint; a file has its name there once it was checked.
    """

    def __init__(self, store: Store, manifest: Manifest, local_path: str | None) -> None:
        self._store, self._manifest = store, manifest
        self._files = {file.name: file for file in manifest.files}
        key = hashlib.sha256(f"{store.uri}\n{manifest.encode()}".encode()).hexdigest()[:16]
        self.path = base(local_path) / f"{CACHE}{key}"
        self._held: IO[bytes] | None = None

    def fetch(self, names: Iterable[str], streams: int = 1) -> None:
        """Have files here, several at once.

        Raises:
            DamagedError: a file is not what the manifest says, or (UnreadableError) cannot be had; all such files are named.
            StoreError: the local disk refuses.
        """
        try:
            self._held = self._held or share(self.path)
        except OSError as error:
            raise self._no_room("files", error) from error
        with ThreadPoolExecutor(streams) as pool:
            jobs = [pool.submit(self._one, name) for name in names]
        errors = [error for job in jobs if (error := job.exception()) is not None]
        for error in errors:
            if not isinstance(error, DamagedError):
                raise error
        # What can be read and is damaged says more than what cannot be read.
        for kind in (DamagedError, UnreadableError):
            if found := sorted({str(error) for error in errors if type(error) is kind}):
                raise kind(", ".join(found))

    def text(self, name: str) -> str:
        """Return a small file."""
        self.fetch([name])
        return (self.path / name).read_text(encoding="utf-8")

    def has(self, name: str) -> bool:
        """Tell whether the checkpoint has a file."""
        return name in self._files

    def remove(self) -> None:
        """Remove the files; the ranks of a node may do so at once."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._held is not None:
            self._held.close()
            self._held = None

    def _one(self, name: str) -> None:
        if name not in self._files:
            raise DamagedError(f"{name} (not in the manifest)")
        target = self.path / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.with_name(f"{target.name}.lock").open("wb") as lock:
                # Whoever waits here finds the file afterwards.
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not target.exists():
                    self._copy(self._files[name], target)
        except OSError as error:
            raise self._no_room(name, error) from error

    def _copy(self, file: File, target: Path) -> None:
        part = target.with_name(f"{target.name}.part")
        try:
            self._store.get(f"{self._manifest.folder}/{file.name}", part)
        except StoreError as error:
            if isinstance(cause := error.__cause__, OSError) and cause.errno in _OUR_DISK:
                raise self._no_room(file.name, cause) from error
            raise UnreadableError(str(error)) from error
        if describe(part, file.name) != file:
            part.unlink()
            raise DamagedError(file.name)
        part.replace(target)

    def _no_room(self, name: str, error: OSError) -> StoreError:
        return StoreError(
            f"local directory {self.path}: cannot hold {name} of {self._store.uri}/{self._manifest.folder}: {error}; "
            "set checkpoint.local_path to another place"
        )


class Reading:
    """One checkpoint, to be filled into a state."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        cache.fetch([METADATA])
        self._reader = FileSystemReader(cache.path)
        self.metadata: Metadata = self._reader.read_metadata()

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the whole shape of every tensor of the model."""
        found = cast("Mapping[str, object]", self.metadata.state_dict_metadata)
        prefix = f"{MODEL}."
        return {
            name.removeprefix(prefix): tuple(entry.size)
            for name, entry in found.items()
            if name.startswith(prefix) and isinstance(entry, TensorStorageMetadata)
        }

    def prepare(self, tree: dict[str, object], streams: int) -> Callable[[], None]:
        """Have here what this rank needs to fill a state; return what fills it.

        Nothing of the state is touched before: a damaged file must not leave half of another checkpoint in it.

        Raises:
            DamagedError: a file is not what was written.
            ValueError: the checkpoint lacks something of the state.
        """
        planner = DefaultLoadPlanner()
        planner.set_up_planner(tree, self.metadata, is_coordinator=False)
        self._reader.set_up_storage_reader(self.metadata, is_coordinator=False)
        try:
            plan = self._reader.prepare_local_plan(planner.create_local_plan())
        except RuntimeError as error:
            raise ValueError(" ".join(str(error).split())) from error
        self.cache.fetch(self._names(plan), streams)
        return lambda: self._fill(planner, plan)

    def _fill(self, planner: DefaultLoadPlanner, plan: LoadPlan) -> None:
        self._reader.read_data(planner.finish_plan(plan), planner).wait()

    def _names(self, plan: LoadPlan) -> list[str]:
        where = cast("Mapping[object, _Place]", self.metadata.storage_data)
        return sorted({where[item.storage_index].relative_path for item in plan.items})


class _Place(Protocol):
    """The part of torch's storage information that is used here."""

    relative_path: str
