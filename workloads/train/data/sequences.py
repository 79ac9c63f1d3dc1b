"""Random access to sequences of one length, whatever they come from."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from .batch import IGNORED, Batch

COUNTS = 1
"""Flag of a token that is predicted. Never set on the first token of a document, on a prompt or on padding."""
STARTS = 2
"""Flag of the first token of a document, and of padding."""


class Sequences(Protocol):
    """Sequences by their number. The same number gives the same tokens on every rank and after every restart."""

    @property
    def sequence_length(self) -> int:
        """Return the tokens of a sequence."""
        ...

    @property
    def fingerprint(self) -> str:
        """Return the sha256 of what the data are, in hex."""
        ...

    def __len__(self) -> int: ...

    def batch(self, numbers: Sequence[int]) -> Batch:
        """Return the sequences of these numbers, in this order."""
        ...


def batch_of(tokens: npt.NDArray[np.integer], flags: npt.NDArray[np.uint8]) -> Batch:
    """Make a batch of `n` sequences of length `s` out of rows that are one token longer.

    Args:
        tokens: [n, s + 1]; the last of a row is a label only, so a document that fills a row loses none.
        flags: [n, s + 1] of COUNTS and STARTS.
    """
    columns = np.arange(tokens.shape[1] - 1, dtype=np.int64)
    starts = np.where(flags[:, :-1] & STARTS, columns, 0)
    positions = columns - np.maximum.accumulate(starts, axis=1)
    counted = (flags[:, 1:] & COUNTS).astype(bool)
    labels = np.where(counted, tokens[:, 1:], IGNORED).astype(np.int64)
    return Batch(
        torch.from_numpy(tokens[:, :-1].astype(np.int64)),  # pyright: ignore[reportUnknownMemberType]
        torch.from_numpy(labels),  # pyright: ignore[reportUnknownMemberType]
        torch.from_numpy(positions),  # pyright: ignore[reportUnknownMemberType]
        int(counted.sum()),
    )
