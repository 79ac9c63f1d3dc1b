"""Checkpoints: each rank stages and uploads its shards, the manifest is written last, and only what has one counts.

    STORE/step-0000000010/__0_0.distcp ...   the shards of each rank (torch.distributed.checkpoint)
    STORE/step-0000000010/.metadata          which tensor lies where; from rank 0
    STORE/step-0000000010/manifest.json      the commit: step, data position, and size and SHA-256 of every file

Ray Train's own checkpoints are not used: there a rank that dies after `report` loses a checkpoint that was already reported.
"""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load  # pyright: ignore[reportUnknownVariableType]
from torch.distributed.checkpoint.state_dict_saver import save  # pyright: ignore[reportUnknownVariableType]

from .agreement import everyone, first_rank
from .errors import StoreError
from .manifest import NAME, File, Manifest, Progress, decode, describe, folder
from .model import Trained
from .store import Store

KEPT = 2
"""Complete checkpoints that stay; one more is there while the next is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A checkpoint that counts."""

    step: int
    uri: str
    num_files: int
    bytes: int
    seconds: float


class Checkpoints:
    """The checkpoints of one run. Every method is called by all ranks together, and fails on all of them together."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.last: str | None = None
        """Where the newest complete checkpoint is."""

    def save(self, trained: Trained, progress: Progress) -> Saved:
        """Write a checkpoint and remove all but the newest two.

        Raises:
            StoreError: staging or the store failed; the text names the last complete checkpoint. What was written does not count.
        """
        started, name = time.monotonic(), folder(progress.step)
        try:
            # A checkpoint of this step that was refused at the start must not count while its files change.
            first_rank(lambda: self._store.delete([f"{name}/{NAME}"]))
            files = everyone(lambda: self._upload(trained, name))
            manifest = Manifest(progress=progress, files=tuple(file for part in files for file in part))
            first_rank(lambda: self._commit(manifest))
            self.last = f"{self._store.uri}/{name}"
            first_rank(self._prune)
        except StoreError as error:
            raise StoreError(f"{error}; last complete checkpoint: {self.last or 'none'}") from error
        return Saved(
            step=progress.step,
            uri=self.last,
            num_files=len(manifest.files),
            bytes=sum(file.bytes for file in manifest.files),
            seconds=round(time.monotonic() - started, 3),
        )

    def resume(self, trained: Trained) -> tuple[Progress | None, list[str]]:
        """Load the newest complete checkpoint; return how far it is, or None, and what was refused because its files are damaged.

        Leftovers of checkpoints that were never complete, and refused ones, are removed.

        Raises:
            StoreError: the store cannot be read.
        """
        refused: list[str] = []
        for manifest in first_rank(self._complete):
            with _Staging() as local:
                damaged = [name for part in everyone(lambda m=manifest, to=local: self._fetch(m, to)) for name in part]
                if damaged:
                    refused.append(f"{manifest.folder}: {', '.join(sorted(set(damaged)))}")
                    first_rank(lambda m=manifest: self._remove(m.folder))
                    continue
                _load(trained, local, f"{self._store.uri}/{manifest.folder}")
            self.last = f"{self._store.uri}/{manifest.folder}"
            return manifest.progress, refused
        return None, refused

    def _upload(self, trained: Trained, name: str) -> list[File]:
        model, optimizer = get_state_dict(trained.module, trained.optimizer)
        with _Staging() as staged:
            try:
                save({"model": model, "optimizer": optimizer}, storage_writer=FileSystemWriter(staged))
            except (CheckpointException, OSError) as error:
                raise StoreError(f"staging directory {staged}: cannot write a checkpoint: {_reason(error)}") from error
            files = [describe(path) for path in sorted(staged.iterdir()) if path.is_file()]
            for file in files:
                self._store.put(staged / file.name, f"{name}/{file.name}")
        return files

    def _commit(self, manifest: Manifest) -> None:
        with _Staging() as staged:
            path = staged / NAME
            path.write_text(manifest.encode(), encoding="utf-8")
            self._store.put(path, f"{manifest.folder}/{NAME}")

    def _prune(self) -> None:
        self._complete(keep=KEPT)

    def _complete(self, keep: int | None = None) -> list[Manifest]:
        """Return the complete checkpoints, newest first, `keep` at most, and remove all other folders of steps."""
        sizes = self._store.sizes()
        folders = sorted({name.partition("/")[0] for name in sizes if name.startswith("step-")}, reverse=True)
        complete: list[Manifest] = []
        for one in folders:
            manifest = self._read(one) if f"{one}/{NAME}" in sizes else None
            if manifest is not None and manifest.whole(sizes) and (keep is None or len(complete) < keep):
                complete.append(manifest)
            else:
                self._remove(one, sizes)
        return complete

    def _read(self, name: str) -> Manifest:
        with _Staging() as local:
            self._store.get(f"{name}/{NAME}", local / NAME)
            try:
                return decode((local / NAME).read_text(encoding="utf-8"))
            except ValueError as error:
                raise StoreError(f"checkpoint store {self._store.uri}: {name}/{NAME}: {error}; move it away") from error

    def _remove(self, name: str, sizes: dict[str, int] | None = None) -> None:
        files = [file for file in (sizes or self._store.sizes()) if file.startswith(f"{name}/")]
        # The manifest goes first: what is left of the folder does not count.
        self._store.delete(sorted(files, key=lambda file: (not file.endswith(f"/{NAME}"), file)))

    def _fetch(self, manifest: Manifest, local: Path) -> list[str]:
        """Copy all files to this rank and return the names of those that are not what was written."""
        for file in manifest.files:
            self._store.get(f"{manifest.folder}/{file.name}", local / file.name)
        return [file.name for file in manifest.files if describe(local / file.name) != file]


def _load(trained: Trained, local: Path, uri: str) -> None:
    model, optimizer = get_state_dict(trained.module, trained.optimizer)
    try:
        load({"model": model, "optimizer": optimizer}, storage_reader=FileSystemReader(local))
    except CheckpointException as error:
        raise StoreError(
            f"checkpoint {uri}: is not one of this model: {_reason(error)}; take another --run-name"
        ) from error
    # The tensors were filled where they are; this puts what the optimizer keeps beside them in its place.
    set_state_dict(trained.module, trained.optimizer, model_state_dict=model, optim_state_dict=optimizer)


def _reason(error: BaseException) -> str:
    """Return the first cause in one line: torch's own text holds the traceback of every rank."""
    causes = [cause for cause, _ in error.failures.values()] if isinstance(error, CheckpointException) else []
    return " ".join(str(causes[0] if causes else error).split())


class _Staging:
    """A directory of this rank alone: a second rank of the node would delete it under the first one's hands."""

    def __init__(self) -> None:
        try:
            self._directory = TemporaryDirectory(prefix=f"train-rank-{dist.get_rank()}-")
        except OSError as error:
            raise StoreError(f"staging directory below {gettempdir()}: {error}; set TMPDIR to another place") from error

    def __enter__(self) -> Path:
        return Path(self._directory.__enter__())

    def __exit__(self, *raised: object) -> None:
        self._directory.cleanup()
