"""The files of a source: which they are, and reading them from disk or S3 alike."""

import io
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from ..errors import StoreError, UsageError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from mypy_boto3_s3 import S3Client

JSONL, PARQUET = ".jsonl", ".parquet"
_BUFFER_BYTES = 4 << 20
"""Bytes that are asked of S3 at once."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source."""

    uri: str
    bytes: int
    tag: str
    """What changes with the content: the ETag of S3, or the time of the last change."""

    @property
    def suffix(self) -> str:
        """Return .jsonl or .parquet."""
        return Path(self.uri).suffix


def list_files(source: str) -> list[SourceFile]:
    """Return the .jsonl and .parquet files of a path, a glob or an S3 prefix, by name.

    Raises:
        UsageError: there are none, or a file that was named is neither.
        StoreError: the source cannot be listed.
    """
    with reading(source, "list"):
        found, named = _objects(source) if source.startswith("s3://") else _paths(source)
    allowed = "files that end in .jsonl or .parquet"
    for file in found if named else ():
        if file.suffix not in (JSONL, PARQUET):
            raise UsageError(f"data.source: found {file.uri}; allowed: {allowed}; name such files alone")
    files = sorted((file for file in found if file.suffix in (JSONL, PARQUET)), key=lambda file: file.uri)
    if not files:
        raise UsageError(
            f"data.source: found {source} with {len(found)} files, none of the right kind; allowed: {allowed}; check the path"
        )
    return files


def open_file(uri: str) -> BinaryIO:
    """Open a file for reading and seeking. Errors are those of `reading`."""
    if not uri.startswith("s3://"):
        return Path(uri).open("rb")
    return cast(BinaryIO, io.BufferedReader(_Object(uri), _BUFFER_BYTES))


@contextmanager
def reading(uri: str, action: str = "read") -> Generator[None]:
    """Say in one line which file could not be read, and why. Raises StoreError."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (Boto3Error, BotoCoreError, ClientError, OSError) as error:
        raise StoreError(f"data {uri}: cannot {action} it: {' '.join(str(error).split())}") from error


def _paths(source: str) -> tuple[list[SourceFile], bool]:
    """Return the files of a path or a glob, and whether each was named, not only found in a folder."""
    place = Path(source)
    # A file may have a name that would be a pattern.
    matching = [place] if place.is_file() else Path("/").glob(source.removeprefix("/"))
    paths = place.rglob("*") if place.is_dir() else matching
    found = [(path, path.stat()) for path in paths if not path.is_dir()]
    return [SourceFile(str(path), stat.st_size, str(stat.st_mtime_ns)) for path, stat in found], not place.is_dir()


def _objects(source: str) -> tuple[list[SourceFile], bool]:
    bucket, prefix = _bucket_and_key(source)
    pages = _client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    entries = [entry for page in pages for entry in page.get("Contents", [])]
    return [
        SourceFile(f"s3://{bucket}/{entry['Key']}", entry["Size"], entry["ETag"].strip('"'))  # pyright: ignore[reportTypedDictNotRequiredAccess]
        for entry in entries
        if not entry["Key"].endswith("/")  # pyright: ignore[reportTypedDictNotRequiredAccess]
    ], False


def _bucket_and_key(uri: str) -> tuple[str, str]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


@cache
def _client() -> "S3Client":
    # Imported here: a run on a file system needs none of it.
    import boto3
    from botocore.config import Config

    # As for checkpoints: a store that does not answer ends the run within minutes.
    config = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 4})
    return boto3.client("s3", config=config)  # pyright: ignore[reportUnknownMemberType]


class _Object(io.RawIOBase):
    """An object of S3 as a file: what is read is asked for, no more."""

    def __init__(self, uri: str) -> None:
        self._bucket, self._key = _bucket_and_key(uri)
        self._bytes = _client().head_object(Bucket=self._bucket, Key=self._key)["ContentLength"]
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self._bytes)[whence]
        return self._position

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        end = min(self._position + len(view), self._bytes)
        if end <= self._position:
            return 0
        answer = _client().get_object(Bucket=self._bucket, Key=self._key, Range=f"bytes={self._position}-{end - 1}")
        body = answer["Body"].read()
        view[: len(body)] = body
        self._position += len(body)
        return len(body)
