"""The commit of a checkpoint: a manifest, written after all of its files, with their sizes and hashes."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

NAME = "manifest.json"
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file of a checkpoint."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is. `position` counts the sequences that were trained on, so the world may have another size next time."""

    step: int = 0
    position: int = 0
    first_loss: float | None = None
    last_loss: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a complete checkpoint consists of."""

    progress: Progress
    files: tuple[File, ...]

    @property
    def folder(self) -> str:
        """Return the checkpoint's folder in the store."""
        return folder(self.progress.step)

    def whole(self, sizes: dict[str, int]) -> bool:
        """Tell whether a store with these files and sizes has all of the checkpoint."""
        return all(sizes.get(f"{self.folder}/{file.name}") == file.bytes for file in self.files)

    def encode(self) -> str:
        """Return the manifest as JSON."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1)


def folder(step: int) -> str:
    """Return the folder of the checkpoint of a step; folders sort by step."""
    return f"step-{step:010}"


def decode(text: str) -> Manifest:
    """Read a manifest.

    Raises:
        ValueError: it is none of this format; the text says why.
    """
    try:
        found = json.loads(text)
        if found["format"] != FORMAT:
            raise ValueError(f"found format {found['format']!r}, this program reads {FORMAT}")
        return Manifest(progress=Progress(**found["progress"]), files=tuple(File(**file) for file in found["files"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a manifest of a checkpoint: {error!r}") from error


def describe(path: Path) -> File:
    """Return name, size and SHA-256 of a file."""
    with path.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return File(name=path.name, bytes=path.stat().st_size, sha256=digest)
