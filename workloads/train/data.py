"""A synthetic token stream that can be learned: a Markov source of first order.

A token is followed by one of `BRANCHES` others, each as likely, so the loss starts near ln(`VOCABULARY`) and can fall to ln(`BRANCHES`).
"""

import math

import torch

VOCABULARY = 128
BRANCHES = 4
SEQUENCE = 64
"""Tokens of a sequence that are predicted."""
SEED = 20_240_817
FIRST_LOSS = math.log(VOCABULARY)
LEAST_LOSS = math.log(BRANCHES)


class MarkovSource:
    """Sequences by their number: the same number gives the same tokens on every rank, in every world size and after every restart."""

    def __init__(self, seed: int = SEED) -> None:
        self._seed = seed
        self._next = torch.randint(VOCABULARY, (VOCABULARY, BRANCHES), generator=_generator(seed))

    def batch(self, first: int, count: int) -> torch.Tensor:
        """Return sequences `first` to `first + count - 1`: int64 [count, SEQUENCE + 1]."""
        generators = [_generator(self._seed * 1_000_003 + number + 1) for number in range(first, first + count)]
        tokens = [torch.stack([torch.randint(VOCABULARY, (), generator=one) for one in generators])]
        choices = torch.stack([torch.randint(BRANCHES, (SEQUENCE,), generator=one) for one in generators], dim=1)
        for choice in choices:
            tokens.append(self._next[tokens[-1], choice])
        return torch.stack(tokens, dim=1)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
