"""Where checkpoints are kept: a directory that every node sees, or S3. A file is there whole or not at all.

A store may be used by several threads at once.
"""

import os
import shutil
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..errors import StoreError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef

_UNFINISHED = ".unfinished"
_PART = 32 << 20
"""Bytes of a part of an upload or download, and the size above which there are parts. S3 takes 10,000 of them: 320 GB a file."""
_PARTS_AT_ONCE = 4
"""Parts of one file at once; a rank moves several files at once besides."""
_CONNECTIONS = 64
_BATCH = 1000
"""Objects that S3 deletes by one request."""


class Store(Protocol):
    """Files below one place, by their names relative to it. Every method raises StoreError, in one line with the place and the file."""

    uri: str

    def sizes(self) -> dict[str, int]:
        """Return the bytes of every file, unfinished ones included."""
        ...

    def put(self, source: Path, name: str) -> None:
        """Write a file; a reader sees it whole or not at all."""
        ...

    def get(self, name: str, target: Path) -> None:
        """Copy a file to this machine."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Remove files; one that is not there is no error."""
        ...


def open_store(uri: str) -> Store:
    """Return the store at `uri`: s3://BUCKET/PREFIX or an absolute path."""
    return S3Store(uri) if uri.startswith("s3://") else DirectoryStore(uri)


class DirectoryStore:
    """A directory, on FSx for Lustre or another file system that all nodes share."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._root = Path(uri)

    def sizes(self) -> dict[str, int]:
        """Return the bytes of every file."""
        with self._named("list", ""):
            files = [path for path in self._root.rglob("*") if path.is_file()]
            return {path.relative_to(self._root).as_posix(): path.stat().st_size for path in files}

    def put(self, source: Path, name: str) -> None:
        """Write a file whole or not at all."""
        target = self._root / name
        unfinished = target.with_name(target.name + _UNFINISHED)
        with self._named("write", name):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with source.open("rb") as read, unfinished.open("wb") as write:
                    shutil.copyfileobj(read, write, 1 << 20)
                    write.flush()
                    # A full or failing disk says so here, not after the checkpoint counts.
                    os.fsync(write.fileno())
                unfinished.replace(target)
            except OSError:
                unfinished.unlink(missing_ok=True)
                raise

    def get(self, name: str, target: Path) -> None:
        """Copy a file to this machine."""
        with self._named("read", name):
            shutil.copyfile(self._root / name, target)

    def delete(self, names: Iterable[str]) -> None:
        """Remove files."""
        for name in names:
            path = self._root / name
            with self._named("delete", name):
                path.unlink(missing_ok=True)
                if path.parent != self._root and path.parent.is_dir() and not any(path.parent.iterdir()):
                    path.parent.rmdir()

    @contextmanager
    def _named(self, action: str, name: str) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(f"checkpoint store {self.uri}: cannot {action} {name or 'it'}: {error}") from error


class S3Store:
    """Objects below s3://BUCKET/PREFIX. boto3 finds credentials, Region and AWS_ENDPOINT_URL by itself."""

    def __init__(self, uri: str) -> None:
        # Imported here: a run on a file system needs none of it.
        import boto3
        from boto3.s3.transfer import TransferConfig
        from botocore.config import Config

        self.uri = uri
        self._bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        self._prefix = prefix.strip("/") + "/"
        # Four tries of at most 35 s: a store that does not answer ends the run within three minutes, not at its deadline.
        config = Config(
            connect_timeout=5,
            read_timeout=30,
            retries={"mode": "standard", "total_max_attempts": 4},
            max_pool_connections=_CONNECTIONS,
        )
        self._transfer = TransferConfig(
            multipart_threshold=_PART, multipart_chunksize=_PART, max_concurrency=_PARTS_AT_ONCE
        )
        with self._named("open", ""):
            self._client: S3Client = boto3.client("s3", config=config)  # pyright: ignore[reportUnknownMemberType]

    def sizes(self) -> dict[str, int]:
        """Return the bytes of every file."""
        with self._named("list", ""):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix)
            found = [entry for page in pages for entry in page.get("Contents", [])]
        return {entry["Key"].removeprefix(self._prefix): entry["Size"] for entry in found}  # pyright: ignore[reportTypedDictNotRequiredAccess]

    def put(self, source: Path, name: str) -> None:
        """Write a file whole or not at all."""
        with self._named("write", name):
            self._client.upload_file(str(source), self._bucket, self._prefix + name, Config=self._transfer)

    def get(self, name: str, target: Path) -> None:
        """Copy a file to this machine."""
        with self._named("read", name):
            self._client.download_file(self._bucket, self._prefix + name, str(target), Config=self._transfer)

    def delete(self, names: Iterable[str]) -> None:
        """Remove files."""
        keys: list[ObjectIdentifierTypeDef] = [{"Key": self._prefix + name} for name in names]
        for first in range(0, len(keys), _BATCH):
            batch = keys[first : first + _BATCH]
            with self._named("delete", batch[0]["Key"].removeprefix(self._prefix)):
                answer = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": batch, "Quiet": True})
            # Objects that stay do not make the request fail.
            for refused in answer.get("Errors", []):
                name = refused.get("Key", "").removeprefix(self._prefix)
                raise StoreError(
                    f"checkpoint store {self.uri}: cannot delete {name}: {refused.get('Code')}: {refused.get('Message')}"
                )

    @contextmanager
    def _named(self, action: str, name: str) -> Generator[None]:
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except (Boto3Error, BotoCoreError, ClientError, OSError) as error:
            raise StoreError(f"checkpoint store {self.uri}: cannot {action} {name or 'it'}: {error}") from error
