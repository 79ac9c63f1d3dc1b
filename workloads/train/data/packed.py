"""Packed sequences on the disk of a node: two arrays for each split, and a manifest that says what they are."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import TrainingError
from .batch import Batch
from .packing import Packed, Packer
from .sequences import batch_of

MANIFEST = "manifest.json"

T = TypeVar("T", bound=np.generic)


class Split(BaseModel):
    """What one split holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sequences: int
    documents: int
    split: int
    """Documents longer than a sequence, which were cut."""
    tokens: int
    labels: int
    """Tokens that are predicted."""
    fill: float
    """Share of the places that hold a token; the rest is padding."""
    sha256: str
    """Of tokens and flags, in order."""


class Manifest(BaseModel):
    """What a folder of packed sequences holds. It is written last."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    tokenizer: str
    sequence_length: int
    train: Split
    held_out: Split

    def split(self, name: str) -> Split:
        """Return `train` or `held_out`."""
        return self.train if name == "train" else self.held_out


class Writer:
    """Pack documents of one split into files, as they come."""

    def __init__(self, folder: Path, name: str, sequence_length: int) -> None:
        self._packer = Packer(sequence_length)
        self._places = sequence_length + 1
        self._tokens = (folder / f"{name}.tokens").open("wb")
        self._flags = (folder / f"{name}.flags").open("wb")
        self._digest = hashlib.sha256(str(sequence_length).encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tokens.close()
        self._flags.close()

    def add(self, tokens: npt.NDArray[np.int32], counts: npt.NDArray[np.bool_]) -> None:
        """Take a document."""
        for packed in self._packer.add(tokens, counts):
            self._write(packed)

    def done(self) -> Split:
        """Write what is left; return what was packed."""
        for packed in self._packer.rest():
            self._write(packed)
        counts = self._packer.counts
        places = counts.sequences * self._places
        return Split(
            sequences=counts.sequences,
            documents=counts.documents,
            split=counts.split,
            tokens=counts.tokens,
            labels=counts.labels,
            fill=round(counts.tokens / places, 4) if places else 0.0,
            sha256=self._digest.hexdigest(),
        )

    def _write(self, packed: Packed) -> None:
        tokens, flags = (array.tobytes() for array in packed)
        self._digest.update(tokens)
        self._digest.update(flags)
        self._tokens.write(tokens)
        self._flags.write(flags)


def read_manifest(folder: Path) -> Manifest:
    """Read what a folder holds. Raises TrainingError where it was damaged."""
    path = folder / MANIFEST
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        text = " ".join(str(error).split())
        raise TrainingError(f"data cache {path}: cannot read it: {text}; delete the folder {folder}") from error


class PackedSequences:
    """The sequences of one split, mapped from disk: what is not asked for is not read."""

    def __init__(self, folder: Path, name: str) -> None:
        manifest = read_manifest(folder)
        split = manifest.split(name)
        self._sequence_length = manifest.sequence_length
        self._fingerprint = split.sha256
        shape = (split.sequences, manifest.sequence_length + 1)
        self._tokens = _mapped(folder / f"{name}.tokens", np.int32, shape)
        self._flags = _mapped(folder / f"{name}.flags", np.uint8, shape)

    @property
    def sequence_length(self) -> int:
        """Return the tokens of a sequence."""
        return self._sequence_length

    @property
    def fingerprint(self) -> str:
        """Return the sha256 of all tokens and flags: of what the data are, not of where they came from."""
        return self._fingerprint

    def __len__(self) -> int:
        return len(self._tokens)

    def batch(self, numbers: Sequence[int]) -> Batch:
        """Return the sequences of these numbers, in this order."""
        at = np.array(numbers, dtype=np.int64)
        return batch_of(self._tokens[at], self._flags[at])


def _mapped(path: Path, dtype: type[T], shape: tuple[int, int]) -> npt.NDArray[T]:
    expected = shape[0] * shape[1] * np.dtype(dtype).itemsize
    try:
        found = path.stat().st_size
        if found == expected:
            return np.memmap(path, dtype=dtype, mode="r", shape=shape)
    except OSError as error:
        raise TrainingError(f"data cache {path}: cannot read it: {error}; delete the folder {path.parent}") from error
    raise TrainingError(
        f"data cache {path}: found {found} bytes; allowed: {expected}, as its manifest says; delete the folder {path.parent}"
    )
