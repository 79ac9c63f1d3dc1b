"""Rows of tokens and flags become what the model sees."""

import numpy as np
import torch

from tests.train.data.data_support import documents_in, rows
from workloads.train.data.batch import IGNORED, Batch
from workloads.train.data.sequences import COUNTS, STARTS, batch_of


def made() -> Batch:
    """A document of three tokens, one of two whose first is a prompt, and padding."""
    tokens = np.array([[5, 6, 7, 8, 9, 9, 0, 0]], dtype=np.int32)
    flags = np.array([[STARTS, COUNTS, COUNTS, STARTS, 0, COUNTS, STARTS, 0]], dtype=np.uint8)
    return batch_of(tokens, flags)


def test_labels_are_the_next_token_and_never_that_of_another_document() -> None:
    batch = made()
    assert rows(batch.input_ids) == [[5, 6, 7, 8, 9, 9, 0]]
    assert rows(batch.labels) == [[6, 7, IGNORED, IGNORED, 9, IGNORED, IGNORED]]
    assert (batch.input_ids.dtype, batch.labels.dtype, batch.position_ids.dtype) == (torch.int64,) * 3


def test_positions_restart_with_each_document_and_with_the_padding() -> None:
    assert rows(made().position_ids) == [[0, 1, 2, 0, 1, 2, 0]]
    assert [ids for ids, _ in documents_in(made())] == [[5, 6, 7], [8, 9, 9], [0]]


def test_the_last_token_of_a_full_row_is_a_label() -> None:
    tokens = np.arange(1, 6, dtype=np.int32)[None]
    flags = np.array([[STARTS, COUNTS, COUNTS, COUNTS, COUNTS]], dtype=np.uint8)
    assert rows(batch_of(tokens, flags).labels) == [[2, 3, 4, 5]]


def test_what_counts_is_known_without_looking_again() -> None:
    batch = made()
    assert batch.num_tokens == 3
    # A batch on a device keeps the number: counting there would wait for all work before it.
    assert batch.to("meta").num_tokens == 3
    assert Batch(batch.input_ids, batch.labels, batch.position_ids).num_tokens == 3


def test_sequences_that_only_fill_a_shape_count_nothing() -> None:
    batch = made()
    ids, labels, positions = (torch.cat([one, one]) for one in (batch.input_ids, batch.labels, batch.position_ids))
    both = Batch(ids, labels, positions)
    assert both.counting(2) is both
    assert both.counting(1).num_tokens == 3
    assert rows(both.counting(1).labels)[0] == rows(batch.labels)[0]
    assert both.counting(0).num_tokens == 0
    assert both.num_tokens == 6, "the batch itself stays as it was"
