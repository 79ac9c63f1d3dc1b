"""What makes a checkpoint of the files that all ranks have uploaded: metadata, the manifest, and room for the next. On rank 0."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.storage import WriteResult

from ..errors import StoreError, TrainingError
from .folders import prune, remove
from .layout import finish
from .manifest import NAME, File, Manifest, describe, folder
from .reading import METADATA
from .store import Store

BEFORE_MARKER = "between-shard-and-marker"
"""Fault point: all shards are in the store, the manifest is not."""
BEFORE_PRUNE = "between-marker-and-prune"
"""Fault point: the checkpoint counts, older ones are still there."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A checkpoint that counts."""

    num_files: int
    bytes: int
    unpruned: str | None
    """Why older ones could not be removed."""


def write_metadata(
    store: Store, name: str, directory: Path, metadata: Metadata, results: Sequence[Sequence[WriteResult]]
) -> File:
    """Tell in the store which tensor lies in which file; `name` is the checkpoint's folder. Raises StoreError."""
    try:
        finish(directory, metadata, results)
        file = describe(directory / METADATA)
    except OSError as error:
        raise StoreError(f"local directory {directory}: cannot write a checkpoint: {error}") from error
    store.put(directory / METADATA, f"{name}/{METADATA}")
    return file


def commit(
    store: Store,
    manifest: Manifest,
    directory: Path,
    *,
    keep: int,
    damaged: set[str],
    reach: Callable[[str], None],
) -> Committed:
    """Write the manifest, then remove what is old.

    Raises:
        StoreError: the store lacks files that were written, as a directory of one node alone does, or the manifest could not be written.
            That older checkpoints could not be removed is told in the result: this one counts.
    """
    path = directory / NAME
    try:
        path.write_text(manifest.encode(), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"local directory {directory}: cannot write a checkpoint: {error}") from error
    if missing := manifest.missing(store.sizes()):
        raise StoreError(
            f"checkpoint store {store.uri}: found nothing of what ranks have written: {', '.join(missing[:3])}"
            f"{f' and {len(missing) - 3} more' if len(missing) > 3 else ''}; allowed: a place that all nodes share; "
            "set run.storage_path to s3://... or a shared file system"
        )
    reach(BEFORE_MARKER)
    store.put(path, f"{manifest.folder}/{NAME}")
    reach(BEFORE_PRUNE)
    damaged.discard(manifest.folder)
    unpruned = None
    try:
        prune(store, keep=keep, spare=manifest.folder, damaged=damaged)
    except StoreError as error:
        unpruned = f"older ones were not removed: {error}"
    return Committed(len(manifest.files), manifest.bytes, unpruned)


def clear(store: Store, step: int) -> str:
    """Remove what was written of a dropped checkpoint; return why it could not be, to be added to a reason."""
    try:
        remove(store, folder(step))
    except StoreError as error:
        return f"; what was written of it stays: {error}"
    return ""


def check_extra(step: int, extra: Mapping[str, object]) -> None:
    """Raise TrainingError where `extra` cannot be kept in a manifest."""
    try:
        json.dumps(dict(extra), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TrainingError(
            f"checkpoint of step {step}: extra: found {error}; allowed: JSON; keep tensors elsewhere"
        ) from error


def empty(directory: Path) -> None:
    """Remove a directory of this process and all that is in it."""
    for path in sorted(directory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
    if directory.exists():
        directory.rmdir()
