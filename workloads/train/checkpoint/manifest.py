"""The commit of a checkpoint: a manifest, written after all of its files, with their sizes and hashes, and a hash of itself."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

NAME = "manifest.json"
FORMAT = 2
PREFIX = "step-"


class NewerFormatError(ValueError):
    """Say that a manifest is of a format that this program does not read: it is not damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file of a checkpoint."""

    name: str
    """Relative to the checkpoint's folder."""
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a complete checkpoint consists of."""

    step: int
    world_size: int
    """Ranks that wrote it."""
    fingerprints: Mapping[str, str]
    """What it belongs to: model, optimizer, tokenizer, settings that matter."""
    extra: Mapping[str, object]
    """What the trainer keeps beside model and optimizer: data position, schedule, plan, seed. JSON."""
    files: tuple[File, ...]

    @property
    def folder(self) -> str:
        """Return the checkpoint's folder in the store."""
        return folder(self.step)

    @property
    def bytes(self) -> int:
        """Return the bytes of all files."""
        return sum(file.bytes for file in self.files)

    def missing(self, sizes: Mapping[str, int]) -> list[str]:
        """Return the files that a store with these files and sizes lacks or holds in another size."""
        return [file.name for file in self.files if sizes.get(f"{self.folder}/{file.name}") != file.bytes]

    def encode(self) -> str:
        """Return the manifest as JSON, with its hash."""
        body = asdict(self)
        return json.dumps({"format": FORMAT, "sha256": _hash(body), **body}, indent=1)


def folder(step: int) -> str:
    """Return the folder of the checkpoint of a step; folders sort by step."""
    return f"{PREFIX}{step:010}"


def decode(text: str) -> Manifest:
    """Read a manifest.

    Raises:
        NewerFormatError: it is of another format.
        ValueError: it is no manifest, or not as it was written; the text says why.
    """
    try:
        found = cast(dict[str, Any], json.loads(text))
        if found["format"] != FORMAT:
            raise NewerFormatError(f"found format {found['format']!r}, this program reads {FORMAT}")
        written = found.pop("sha256")
        del found["format"]
        if _hash(found) != written:
            raise ValueError("is not as it was written: its own SHA-256 differs")
        files = tuple(File(**file) for file in found.pop("files"))
        return Manifest(files=files, **found)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a manifest of a checkpoint: {error!r}") from error


def describe(path: Path, name: str | None = None) -> File:
    """Return name, size and SHA-256 of a file."""
    with path.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return File(name=name or path.name, bytes=path.stat().st_size, sha256=digest)


def _hash(body: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
