"""Four ranks of gloo for all tests of this folder: to start them costs more than to use them."""

from collections.abc import Iterator

import pytest

from tests.train.rank_pool import Ranks, pool


@pytest.fixture(scope="session")
def ranks() -> Iterator[Ranks]:
    with pool(4) as four:
        yield four
