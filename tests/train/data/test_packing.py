"""Documents are packed whole, every token keeps its place as a label once, and little is padding."""

# numpy does not type all of its functions.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false

import numpy as np
import pytest

from workloads.train.data.packing import OPEN_SEQUENCES, Counts, Packed, Packer
from workloads.train.data.sequences import COUNTS, batch_of


def packed(lengths: list[int], sequence_length: int) -> tuple[list[Packed], Counts]:
    """Pack documents of so many tokens; the tokens of all are numbered from 1 on."""
    packer, found, number = Packer(sequence_length), list[Packed](), 1
    for length in lengths:
        counts = np.ones(length, dtype=np.bool_)
        counts[0] = False
        found.extend(packer.add(np.arange(number, number + length, dtype=np.int32), counts))
        number += length
    found.extend(packer.rest())
    return found, packer.counts


def labels(found: list[Packed]) -> list[int]:
    return sorted(int(token) for tokens, flags in found for token in tokens[(flags & COUNTS) > 0])


def expected(lengths: list[int]) -> list[int]:
    """All tokens but the first of each document."""
    firsts = {1 + sum(lengths[:number]) for number in range(len(lengths))}
    return [token for token in range(1, 1 + sum(lengths)) if token not in firsts]


LENGTHS = [int(length) for length in np.random.default_rng(1).integers(2, 90, size=2000)]


@pytest.mark.parametrize("lengths", [[2], [9], [10], [16, 17, 18], [17] * 5, [33, 34], [200, 2, 3], LENGTHS], ids=len)
def test_every_token_but_the_first_of_a_document_is_predicted_once(lengths: list[int]) -> None:
    found, counts = packed(lengths, 16)
    assert labels(found) == expected(lengths)
    assert counts.labels == len(expected(lengths))
    assert (counts.sequences, counts.documents) == (len(found), len(lengths))


def test_a_document_that_fits_is_never_cut() -> None:
    found, counts = packed([length for length in LENGTHS if length <= 65], 64)
    assert counts.split == 0
    starts = [int(tokens[at]) for tokens, flags in found for at in np.flatnonzero(flags & 2) if tokens[at]]
    assert len(starts) == counts.documents


def test_a_long_document_is_cut_where_the_next_piece_takes_up_its_last_label() -> None:
    found, counts = packed([40], 16)
    assert counts.split == 1
    pieces = [tokens[: np.count_nonzero(tokens)].tolist() for tokens, _ in found]
    assert sorted(map(tuple, pieces)) == [tuple(range(1, 18)), tuple(range(17, 34)), tuple(range(33, 41))]


def test_little_is_padding() -> None:
    """Best fit over a bounded window, on lengths that no sequence is a multiple of; first in, first out would leave a third."""
    lengths = [int(length) for length in np.random.default_rng(2).lognormal(5.5, 1.0, size=8000).clip(2, 2049)]
    found, counts = packed(lengths, 2048)
    assert counts.tokens / (len(found) * 2049) > 0.98


def test_a_document_goes_where_it_fits_best() -> None:
    (first, second), _ = packed([10, 13, 4, 7], 16)
    assert [int(token) for token in first[0] if token] == [*range(11, 24), *range(24, 28)]
    assert [int(token) for token in second[0] if token] == [*range(1, 11), *range(28, 35)]


def test_few_sequences_are_open_at_once() -> None:
    packer = Packer(16)
    done = [
        len(list(packer.add(np.ones(10, dtype=np.int32), np.ones(10, dtype=np.bool_))))
        for _ in range(3 * OPEN_SEQUENCES)
    ]
    assert sum(done) == 2 * OPEN_SEQUENCES
    assert max(done) == 1


def test_a_piece_of_a_prompt_without_its_answer_is_left_out() -> None:
    packer = Packer(8)
    counts = np.zeros(20, dtype=np.bool_)
    counts[18:] = True
    found = [*packer.add(np.arange(1, 21, dtype=np.int32), counts), *packer.rest()]
    assert len(found) == 1
    assert packer.counts.labels == 2
    assert labels(found) == [19, 20]


def test_padding_counts_nothing_and_is_told_apart() -> None:
    found, counts = packed([5], 16)
    batch = batch_of(found[0][0][None], found[0][1][None])
    assert batch.num_tokens == counts.labels == 4
    assert batch.position_ids[0].tolist() == [0, 1, 2, 3, 4, *range(11)]  # pyright: ignore[reportUnknownMemberType]
