"""The checkpoints in a store, seen by rank 0: which are complete, which are leftovers, which go. No torch, no collectives."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ..errors import StoreError
from .manifest import NAME, PREFIX, Manifest, NewerFormatError, decode
from .store import Store


@dataclass(frozen=True, slots=True)
class Survey:
    """What is in a store."""

    complete: tuple[Manifest, ...]
    """Newest first. Their files are there in their sizes; hashes are compared when they are read."""
    leftovers: tuple[str, ...]
    """Folders without a manifest."""
    refused: tuple[str, ...]
    """What does not count, each with its reason."""


def survey(store: Store) -> Survey:
    """Look at every checkpoint in a store.

    Raises:
        StoreError: the store cannot be read, or a manifest is of a format that this program does not know.
    """
    sizes = store.sizes()
    complete: list[Manifest] = []
    leftovers: list[str] = []
    refused: list[str] = []
    for folder in sorted({name.partition("/")[0] for name in sizes if name.startswith(PREFIX)}, reverse=True):
        if f"{folder}/{NAME}" not in sizes:
            leftovers.append(folder)
            refused.append(f"{folder}: incomplete, no {NAME}")
            continue
        try:
            manifest = read(store, folder)
        except NewerFormatError as error:
            # Not skipped as damaged: a newer program may have written it, and would find this one's checkpoints in its way.
            raise StoreError(f"checkpoint {store.uri}/{folder}: {NAME}: {error}; move it away") from error
        except ValueError as error:
            refused.append(f"{folder}: {NAME}: {error}")
            continue
        if missing := manifest.missing(sizes):
            refused.append(f"{folder}: missing or cut: {', '.join(missing)}")
        else:
            complete.append(manifest)
    return Survey(tuple(complete), tuple(leftovers), tuple(refused))


def read(store: Store, folder: str) -> Manifest:
    """Read the manifest of a checkpoint.

    Raises:
        StoreError: the store has none.
        ValueError: it is none, or damaged.
    """
    with TemporaryDirectory() as local:
        path = Path(local) / NAME
        store.get(f"{folder}/{NAME}", path)
        return decode(path.read_text(encoding="utf-8", errors="replace"))


def prune(store: Store, *, keep: int, spare: str, damaged: Collection[str] = ()) -> list[str]:
    """Remove all checkpoints but the newest `keep` complete ones, and all leftovers; return what went.

    `spare` is the folder of the last good one, which stays whatever the numbers say. `damaged` are those that look complete and are
    not: they do not count among the newest, and go. It is called when a newer checkpoint counts, never before.
    """
    sizes = store.sizes()
    complete = [manifest.folder for manifest in survey(store).complete if manifest.folder not in damaged]
    stay = {*complete[:keep], spare}
    gone = sorted({name.partition("/")[0] for name in sizes if name.startswith(PREFIX)} - stay)
    for folder in gone:
        remove(store, folder, sizes)
    return gone


def remove(store: Store, folder: str, sizes: Collection[str] | None = None) -> None:
    """Remove a checkpoint; the manifest goes first: what is left of the folder does not count."""
    files = sorted(name for name in (store.sizes() if sizes is None else sizes) if name.startswith(f"{folder}/"))
    marker = f"{folder}/{NAME}"
    if marker in files:
        store.delete([marker])
    store.delete([name for name in files if name != marker])
