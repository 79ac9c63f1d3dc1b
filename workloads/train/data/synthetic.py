"""A synthetic token stream that can be learned: a Markov source of first order.

A token is followed by one of `BRANCHES` others, each as likely, so the loss starts near ln(vocabulary) and can fall to ln(`BRANCHES`).
"""

import hashlib
import math
from collections.abc import Sequence

import numpy as np

from .batch import Batch
from .sequences import COUNTS, STARTS, batch_of

BRANCHES = 4
LEAST_LOSS = math.log(BRANCHES)
TRAINED, HELD_OUT = 1 << 20, 64
"""Sequences of a run that are trained on, and that are only evaluated."""


class MarkovSource:
    """Sequences by their number: the same number gives the same tokens on every rank, in every world size and after every restart."""

    def __init__(
        self, sequence_length: int, vocab_size: int, *, seed: int = 0, first: int = 0, num_sequences: int = TRAINED
    ) -> None:
        self._sequence_length = sequence_length
        self._vocab_size = vocab_size
        self._seed = seed
        self._first = first
        self._num_sequences = num_sequences
        self._next = _generator(seed, 0).integers(vocab_size, size=(vocab_size, BRANCHES), dtype=np.int32)

    @property
    def sequence_length(self) -> int:
        """Return the tokens of a sequence."""
        return self._sequence_length

    @property
    def fingerprint(self) -> str:
        """Return the sha256 of what decides the tokens."""
        values = ("markov", self._sequence_length, self._vocab_size, self._seed, self._first, self._num_sequences)
        return hashlib.sha256(repr(values).encode()).hexdigest()

    @property
    def first_loss(self) -> float:
        """Return the loss of a guess, in nats."""
        return math.log(self._vocab_size)

    def __len__(self) -> int:
        return self._num_sequences

    def batch(self, numbers: Sequence[int]) -> Batch:
        """Return the sequences of these numbers; each is one document and all its tokens count."""
        tokens = np.empty((len(numbers), self._sequence_length + 1), dtype=np.int32)
        choices = np.empty((self._sequence_length, len(numbers)), dtype=np.int64)
        for row, number in enumerate(numbers):
            generator = _generator(self._seed, 1 + self._first + number)
            tokens[row, 0] = generator.integers(self._vocab_size)
            choices[:, row] = generator.integers(BRANCHES, size=self._sequence_length)
        token = tokens[:, 0]
        for at, choice in enumerate(choices, 1):
            token = self._next[token, choice]
            tokens[:, at] = token
        flags = np.full(tokens.shape, COUNTS, dtype=np.uint8)
        flags[:, 0] = STARTS
        return batch_of(tokens, flags)


def _generator(seed: int, number: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=np.array([seed, number], dtype=np.uint64)))
