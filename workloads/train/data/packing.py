"""Documents to sequences of one length.

Best fit over a bounded number of open sequences: a document goes whole into the open one that it fills best, and when too many are
open the fullest is closed. Concatenating and cutting would leave no padding but cuts most documents (the beginning that a token
depends on lies in another sequence); with some hundred open sequences best fit leaves about as little (Ding et al. 2024, "Fewer
Truncations Improve Language Modeling", arXiv 2404.10830). Only a document longer than a sequence is cut, into pieces that overlap by
the one token that is the label of the one and the beginning of the other, so no token loses its place as a label.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from .sequences import COUNTS, STARTS

VERSION = 1
"""Of what is written; another one is packed anew."""
OPEN_SEQUENCES = 256


@dataclass(slots=True)
class Counts:
    """What was packed."""

    sequences: int = 0
    documents: int = 0
    split: int = 0
    """Documents longer than a sequence."""
    tokens: int = 0
    """Tokens in sequences, without padding."""
    labels: int = 0
    """Tokens that are predicted."""


@dataclass(slots=True)
class _Open:
    tokens: list[npt.NDArray[np.int32]] = field(default_factory=list[npt.NDArray[np.int32]])
    counts: list[npt.NDArray[np.bool_]] = field(default_factory=list[npt.NDArray[np.bool_]])


Packed = tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]
"""Tokens and flags of a sequence, both [s + 1]."""


class Packer:
    """Pack documents in the order in which they come; the same order gives the same sequences."""

    def __init__(self, sequence_length: int) -> None:
        self._room = sequence_length + 1
        self._open: dict[int, _Open] = {}
        self._by_room: list[tuple[int, int]] = []
        """Room that is left and number of the open sequence, sorted."""
        self._next = 0
        self.counts = Counts()

    def add(self, tokens: npt.NDArray[np.int32], counts: npt.NDArray[np.bool_]) -> Iterator[Packed]:
        """Take a document; give the sequences that are done."""
        self.counts.documents += 1
        self.counts.split += len(tokens) > self._room
        for first in range(0, max(len(tokens) - 1, 1), self._room - 1):
            piece = tokens[first : first + self._room]
            counted = counts[first : first + self._room].copy()
            counted[0] = False
            # A piece of a prompt that was cut off from its answer teaches nothing.
            if counted.any():
                yield from self._place(piece, counted)

    def rest(self) -> Iterator[Packed]:
        """Give the sequences that are still open."""
        while self._by_room:
            yield self._close()

    def _place(self, tokens: npt.NDArray[np.int32], counts: npt.NDArray[np.bool_]) -> Iterator[Packed]:
        at = bisect_left(self._by_room, (len(tokens), -1))
        if at < len(self._by_room):
            room, number = self._by_room.pop(at)
        else:
            room, number = self._room, self._next
            self._next += 1
            self._open[number] = _Open()
        self._open[number].tokens.append(tokens)
        self._open[number].counts.append(counts)
        insort(self._by_room, (room - len(tokens), number))
        # Room for one token fits no document, which has two.
        while self._by_room and (self._by_room[0][0] < 2 or len(self._by_room) > OPEN_SEQUENCES):
            yield self._close()

    def _close(self) -> Packed:
        _, number = self._by_room.pop(0)
        done = self._open.pop(number)
        tokens = np.zeros(self._room, dtype=np.int32)
        flags = np.zeros(self._room, dtype=np.uint8)
        at = 0
        for piece, counts in zip(done.tokens, done.counts, strict=True):
            tokens[at : at + len(piece)] = piece
            flags[at : at + len(piece)] = counts * np.uint8(COUNTS)
            flags[at] |= STARTS
            at += len(piece)
        if at < self._room:
            flags[at] |= STARTS
        self.counts.sequences += 1
        self.counts.tokens += at
        self.counts.labels += int((flags & COUNTS).sum())
        return tokens, flags
