"""The cache of built tools, shared by every checkout of this user: whole entries or none."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from rehearsal.errors import RehearsalError
from rehearsal.toolchain.places import CACHE_VARIABLE, named_directory


def cache_root() -> Path:
    """Return the cache directory: $EFA_RAY_TRAIN_CACHE, else efa-ray-train in $XDG_CACHE_HOME or ~/.cache.

    Raises RehearsalError when one of them is a relative path.
    """
    base = named_directory("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return named_directory(CACHE_VARIABLE) or base / "efa-ray-train"


def ensure_entry(
    key: str,
    make: Callable[[Path], None],
    *,
    whole: Callable[[Path], bool] = Path.is_dir,
    on_wait: Callable[[], None] = lambda: None,
) -> Path:
    """Return the cache entry `key`, made by `make(directory)` if it is not there yet, or is no longer `whole`.

    `make` fills a directory of its own that becomes the entry by one rename, so a build that fails, is killed or runs
    out of disk leaves nothing that a later run could take for an entry. A lock that the kernel drops with its process
    keeps two checkouts from building the same thing at once; `on_wait` is called once when another process has it.

    Raises RehearsalError when the cache cannot be written.
    """
    root = cache_root()
    entry = root / key
    if whole(entry):
        return entry
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _lock(root / f".{key}.lock", on_wait):
            if whole(entry):
                return entry
            # The lock is ours, so whoever left these is gone.
            for leftover in root.glob(f".{key}.tmp-*"):
                shutil.rmtree(leftover, ignore_errors=True)
            work = Path(tempfile.mkdtemp(prefix=f".{key}.tmp-", dir=root))
            try:
                make(work)
                work.chmod(0o755)
                if entry.exists():
                    # Somebody has taken files out of it.
                    shutil.rmtree(entry)
                work.rename(entry)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise RehearsalError(
            f"cache {root}: {error.strerror or error}; needs a writable directory with 8 GB free: "
            f"make room or set {CACHE_VARIABLE} to another directory"
        ) from error
    return entry


@contextmanager
def _lock(path: Path, on_wait: Callable[[], None]) -> Generator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
