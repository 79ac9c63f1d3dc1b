"""The synthetic token stream: the same everywhere, and learnable to a known loss."""

import itertools
import math

import pytest
import torch

from tests.train.data.data_support import rows
from workloads.train.data.config import DataConfig
from workloads.train.data.prepare import open_data
from workloads.train.data.synthetic import BRANCHES, MarkovSource

VOCABULARY, LENGTH = 128, 64


def source(**settings: int) -> MarkovSource:
    return MarkovSource(LENGTH, VOCABULARY, **settings)


def test_a_sequence_has_its_number_however_it_is_asked_for() -> None:
    whole = source().batch([3, 4, 5, 6, 7])
    assert whole.input_ids.shape == (5, LENGTH)
    assert whole.num_tokens == 5 * LENGTH
    assert torch.equal(whole.input_ids[[4, 0]], source().batch([7, 3]).input_ids)


def test_labels_go_on_where_inputs_end() -> None:
    batch = source().batch([0, 1])
    assert torch.equal(batch.input_ids[:, 1:], batch.labels[:, :-1])


def test_sequences_differ() -> None:
    assert len({tuple(row) for row in rows(source().batch(range(64)).input_ids)}) == 64


def test_another_seed_is_another_language() -> None:
    assert not torch.equal(source(seed=1).batch([0]).input_ids, source(seed=2).batch([0]).input_ids)
    assert source(seed=1).fingerprint != source(seed=2).fingerprint


def test_a_token_leads_to_few_others() -> None:
    batch = source().batch(range(500))
    assert int(batch.input_ids.min()) >= 0
    assert int(batch.labels.max()) < VOCABULARY
    following: dict[int, set[int]] = {}
    for row in rows(batch.input_ids):
        for token, after in itertools.pairwise(row):
            following.setdefault(token, set()).add(after)
    assert max(map(len, following.values())) == BRANCHES
    assert len(following) > VOCABULARY // 2
    assert source().first_loss == pytest.approx(math.log(VOCABULARY))


def test_what_is_evaluated_is_never_trained_on() -> None:
    data = open_data(DataConfig(source="synthetic", sequence_length=LENGTH), vocab_size=VOCABULARY)
    assert data.held_out is not None
    assert data.words is None
    trained = {tuple(row) for row in rows(data.train.batch(range(200)).input_ids)}
    assert not trained & {tuple(row) for row in rows(data.held_out.batch(range(len(data.held_out))).input_ids)}
    assert open_data(DataConfig(source="synthetic", held_out=0), vocab_size=VOCABULARY).held_out is None
