"""The token stream: the same everywhere, and learnable to a known loss."""

import itertools
from typing import cast

import torch

from workloads.train.data import BRANCHES, SEQUENCE, VOCABULARY, MarkovSource


def rows(batch: torch.Tensor) -> list[list[int]]:
    return cast(list[list[int]], batch.tolist())  # pyright: ignore[reportUnknownMemberType]


def test_a_sequence_has_its_number_however_it_is_asked_for() -> None:
    whole = MarkovSource().batch(3, 5)
    assert whole.shape == (5, SEQUENCE + 1)
    assert torch.equal(whole, torch.cat([MarkovSource().batch(3, 2), MarkovSource().batch(5, 3)]))


def test_sequences_differ() -> None:
    batch = MarkovSource().batch(0, 64)
    assert len({tuple(row) for row in rows(batch)}) == 64


def test_another_seed_is_another_language() -> None:
    assert not torch.equal(MarkovSource(1).batch(0, 4), MarkovSource(2).batch(0, 4))


def test_a_token_leads_to_few_others() -> None:
    batch = MarkovSource().batch(0, 500)
    assert int(batch.min()) >= 0
    assert int(batch.max()) < VOCABULARY
    following: dict[int, set[int]] = {}
    for row in rows(batch):
        for token, after in itertools.pairwise(row):
            following.setdefault(token, set()).add(after)
    assert max(map(len, following.values())) == BRANCHES
    assert len(following) > VOCABULARY // 2
