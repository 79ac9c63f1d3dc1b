"""Directories on a node's local disk, for files on their way to and from the store. What a killed process left there is removed."""

import fcntl
import os
import shutil
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import IO

from ..errors import StoreError

_PREFIX = "train-staging-"
CACHE = "train-cache-"
"""Begins the names of directories that the processes of a node share while they read a checkpoint."""
_LOCK = "lock"


class LocalDirectory:
    """A directory of this process alone.

    Two ranks of a node in one directory would write over and delete each other's files
    (https://github.com/ray-project/ray/pull/55637).
    """

    def __init__(self, local_path: str | None, rank: int) -> None:
        parent = base(local_path)
        try:
            parent.mkdir(parents=True, exist_ok=True)
            _sweep(parent)
            self.path = Path(mkdtemp(prefix=f"{_PREFIX}rank-{rank}-", dir=parent))
            self._lock = _locked(self.path)
        except OSError as error:
            raise StoreError(
                f"local directory {parent}: {error}; set checkpoint.local_path to another place"
            ) from error

    def remove(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()


def base(local_path: str | None) -> Path:
    """Return the directory below which all is."""
    return Path(local_path or gettempdir())


def _sweep(parent: Path) -> None:
    """Remove directories whose processes are gone: 2 GB a rank and save, which nobody else would."""
    for left in [*parent.glob(f"{_PREFIX}*"), *parent.glob(f"{CACHE}*")]:
        lock = _locked(left)
        if lock is not None:
            shutil.rmtree(left, ignore_errors=True)
            lock.close()


def share(directory: Path) -> IO[bytes]:
    """Make a directory and keep others from removing it as a leftover until what is returned is closed. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    lock = (directory / _LOCK).open("wb")
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def _locked(directory: Path) -> IO[bytes] | None:
    """Lock a directory for as long as this process lives, or return None where another one has it."""
    try:
        lock = (directory / _LOCK).open("wb")
    except FileNotFoundError:
        # Another rank was faster.
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    os.set_inheritable(lock.fileno(), False)
    return lock
