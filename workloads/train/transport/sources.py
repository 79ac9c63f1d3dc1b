"""Logs as people have them: files, directories, compressed files, standard input."""

import gzip
import sys
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from ..errors import UsageError
from .parse import Parser
from .records import Records, merge

STDIN = "-"
_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"


def read_all(names: Sequence[str]) -> Records:
    """Return what all logs say together.

    Raises:
        UsageError: a log is not there, empty or unreadable; all such are named.
    """
    parts: list[Records] = []
    wrong: list[str] = []
    seen: set[Path] = set()
    for name in names:
        try:
            for path in [None] if name == STDIN else _files(Path(name)):
                if path is not None and path.resolve() in seen:
                    continue
                if path is not None:
                    seen.add(path.resolve())
                parts.append(_read(path))
        except _WrongError as error:
            wrong.append(f"{name}: {error}")
        except (OSError, EOFError, zlib.error) as error:
            wrong.append(f"{name}: {getattr(error, 'strerror', None) or error}; give a log that can be read to its end")
    if wrong:
        raise UsageError("\n".join(wrong))
    return merge(parts)


class _WrongError(Exception):
    pass


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise _WrongError("found no such file; allowed: a log, a directory of logs, or - for standard input")
    if not path.is_dir():
        if path.is_file() and not path.stat().st_size:
            raise _WrongError("found an empty file; give the log of a run that has begun")
        return [path]
    # Ray makes a file for every worker's stderr, most of them empty; `session_latest` is a link to what is there already.
    found = sorted(one for one in path.rglob("*") if one.is_file() and one.stat().st_size)
    found = [one for one in found if _is_text(one)]
    if not found:
        raise _WrongError(
            "found a directory without a log; give the one that holds NCCL's files, or Ray's session_*/logs"
        )
    return found


def _is_text(path: Path) -> bool:
    with _opened(path) as file:
        return b"\0" not in file.read(4096)


def _read(path: Path | None) -> Records:
    parser = Parser(str(path) if path is not None else STDIN)
    empty = True
    with _opened(path) as file:
        for lines in chunks(file):
            empty = False
            parser.feed(lines)
    if empty:
        raise _WrongError("found nothing to read; give the log of a run that has begun")
    return parser.finish()


@contextmanager
def _opened(path: Path | None) -> Generator[BinaryIO]:
    if path is None:
        yield sys.stdin.buffer
        return
    with path.open("rb") as file:
        if file.read(2) == _GZIP:
            with gzip.open(path, "rb") as unpacked:
                yield cast(BinaryIO, unpacked)
        else:
            file.seek(0)
            yield file


def chunks(file: BinaryIO, size: int = _CHUNK) -> Generator[list[str]]:
    """Yield the lines of a file, as many as a block of `size` bytes ends. Of a line longer than any of NCCL's, only the end is kept."""
    rest = b""
    while block := file.read(size):
        head, newline, tail = block.rpartition(b"\n")
        if newline:
            yield (rest + head).decode("utf-8", "replace").split("\n")
            rest = tail
        else:
            rest = (rest + tail)[-_CHUNK:]
    if rest:
        yield [rest.decode("utf-8", "replace")]
