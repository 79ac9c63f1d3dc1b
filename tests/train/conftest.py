"""Ranks of gloo that the tests of a module share: to start them costs more than to use them."""

from collections.abc import Iterator

import pytest

from tests.train.rank_pool import Ranks, pool


@pytest.fixture(scope="module")
def one() -> Iterator[Ranks]:
    with pool(1) as ranks:
        yield ranks


@pytest.fixture(scope="module")
def two() -> Iterator[Ranks]:
    with pool(2) as ranks:
        yield ranks


@pytest.fixture(scope="module")
def four() -> Iterator[Ranks]:
    with pool(4) as ranks:
        yield ranks
