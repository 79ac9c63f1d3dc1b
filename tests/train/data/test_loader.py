"""The order of training: exact to the sequence, the same for any world size, and as many steps on every rank."""

# numpy does not type all of its functions.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false

import threading
import time
from collections.abc import Sequence
from itertools import islice

import numpy as np
import pytest
import torch

from workloads.train.data.batch import Batch
from workloads.train.data.state import AHEAD, DataState, Loader, shuffled
from workloads.train.errors import TrainingError


class Counted:
    """Sequences that hold nothing but their own number."""

    def __init__(self, count: int, fingerprint: str = "a" * 64, breaks_at: int | None = None) -> None:
        self.count, self.fingerprint, self.sequence_length = count, fingerprint, 1
        self.made = 0
        self._breaks_at = breaks_at

    def __len__(self) -> int:
        return self.count

    def batch(self, numbers: Sequence[int]) -> Batch:
        if self.made == self._breaks_at:
            raise TrainingError("data cache /x: cannot read it")
        self.made += 1
        ids = torch.tensor(numbers)[:, None]
        return Batch(ids, ids, torch.zeros_like(ids))


def loader(sequences: Counted, rank: int = 0, world_size: int = 1, **settings: int) -> Loader:
    values: dict[str, int] = {"seed": 3, "micro_batch": 1, "accumulation": 1, **settings}
    return Loader(sequences, rank=rank, world_size=world_size, pin=False, **values)


def step(one: Loader) -> list[int]:
    return [int(number) for batch in one.next_micro_batches() for number in batch.input_ids.ravel()]


def steps(count: int, world_size: int, num_sequences: int = 17, **settings: int) -> list[list[int]]:
    """Return the sequences of each step, of all ranks together, sorted."""
    ranks = [loader(Counted(num_sequences), rank, world_size, **settings) for rank in range(world_size)]
    found = [sorted(number for one in ranks for number in step(one)) for _ in range(count)]
    for one in ranks:
        one.close()
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 17, 100, 1000])
def test_an_epoch_is_a_permutation(count: int) -> None:
    for epoch in (0, 1, 7):
        found = shuffled(5, epoch * count + np.arange(count), count)
        assert sorted(found.tolist()) == list(range(count))


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = [tuple(shuffled(seed, epoch * 50 + np.arange(50), 50).tolist()) for seed in (0, 1) for epoch in (0, 1)]
    assert len({*orders, tuple(range(50))}) == 5


def test_the_order_stays_what_it_was() -> None:
    """A checkpoint of today is resumed by the program of tomorrow: another order would repeat some rows and leave out others."""
    order = [14, 10, 16, 0, 15, 12, 4, 8, 11, 7, 3, 6, 5, 1, 2, 13, 9]
    next_epoch = [6, 5, 7]
    assert shuffled(0, np.arange(20), 17).tolist() == [*order, *next_epoch]


def test_the_order_is_near_a_random_one() -> None:
    """Neighbours of the files are not neighbours of the order, and no place keeps its number more often than chance."""
    count = 10_000
    found = shuffled(0, np.arange(count), count)
    assert abs(float(np.corrcoef(np.arange(count), found)[0, 1])) < 0.03
    assert float(np.mean(np.abs(np.diff(found)) == 1)) < 0.002
    first = np.array([int(shuffled(seed, np.zeros(1, np.int64), 10)[0]) for seed in range(2000)])
    assert np.bincount(first, minlength=10).min() > 140


def test_any_place_is_known_without_those_before() -> None:
    far = 10**12
    assert shuffled(1, np.array([far, far + 1]), 10**9).tolist() == [
        int(shuffled(1, np.array([far + at]), 10**9)[0]) for at in (0, 1)
    ]


def test_17_rows_on_8_ranks_starve_none() -> None:
    """Two steps are 16 rows; the third takes the last one and goes on with the next epoch, on every rank alike."""
    ranks = [loader(Counted(17), rank, 8) for rank in range(8)]
    found = [[step(one) for one in ranks] for _ in range(17)]
    assert all(len(numbers) == 1 for numbers in (share for shares in found for share in shares))
    flat = [share[0] for shares in found for share in shares]
    epochs = [flat[first : first + 17] for first in range(0, 8 * 17, 17)]
    assert all(sorted(epoch) == list(range(17)) for epoch in epochs)
    assert {one.state.position for one in ranks} == {8 * 17}
    assert ranks[0].epoch == 8
    for one in ranks:
        one.close()


def test_the_world_size_does_not_change_what_a_step_trains_on() -> None:
    alone = steps(9, 1, micro_batch=2, accumulation=4)
    assert alone == steps(9, 8)
    assert alone == steps(9, 2, micro_batch=4)
    assert alone == steps(9, 4, micro_batch=1, accumulation=2)


def test_fewer_rows_than_a_step_are_trained_on_and_said() -> None:
    assert [numbers.count(0) for numbers in steps(3, 8, num_sequences=3)] != [0, 0, 0]
    few = loader(Counted(3), 0, 8)
    assert few.notes == ["data: 3 sequences are fewer than the 8 of one step, so a step trains on some more than once"]
    assert loader(Counted(8), 0, 8).notes == []


def test_a_resumed_run_goes_on_with_the_next_sequence() -> None:
    whole = steps(6, 2)
    first = loader(Counted(17), 0, 2)
    for _ in range(3):
        step(first)
    state = first.state
    first.close()
    assert state == DataState(seed=3, position=6, fingerprint="a" * 64)
    ranks = [loader(Counted(17), rank, 2) for rank in range(2)]
    for one in ranks:
        one.resume(state)
    assert [sorted(number for one in ranks for number in step(one)) for _ in range(3)] == whole[3:]
    for one in ranks:
        one.close()


def test_what_was_made_ahead_does_not_count_as_taken() -> None:
    sequences = Counted(17)
    with loader(sequences) as one:
        step(one)
        deadline = time.monotonic() + 5
        while sequences.made <= AHEAD:
            assert time.monotonic() < deadline, "nothing is made ahead"
            time.sleep(0.01)
        assert one.state.position == 1


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (
            DataState(seed=3, position=4, fingerprint="b" * 64),
            f"data: found fingerprint {'a' * 12}, but the checkpoint was trained on {'b' * 12}; ",
        ),
        (DataState(seed=4, position=4, fingerprint="a" * 64), "data.seed: found 3; allowed: 4, "),
    ],
)
def test_other_data_or_another_order_are_refused(state: DataState, words: str) -> None:
    with pytest.raises(TrainingError) as caught:
        loader(Counted(17)).resume(state)
    assert str(caught.value).startswith(words)
    assert len(str(caught.value).splitlines()) == 1


def test_an_error_of_the_thread_is_raised_where_data_are_asked_for() -> None:
    with loader(Counted(17, breaks_at=2)) as one:
        assert [len(step(one)) for _ in range(2)] == [1, 1]
        with pytest.raises(TrainingError, match=r"^data cache /x: cannot read it$"):
            step(one)


def test_the_wait_for_data_is_measured() -> None:
    class Slow(Counted):
        def batch(self, numbers: Sequence[int]) -> Batch:
            time.sleep(0.05)
            return super().batch(numbers)

    with loader(Slow(17)) as one:
        step(one)
        assert one.wait_seconds >= 0.04
    with loader(Counted(17)) as one:
        step(one)
        time.sleep(0.1)
        before = one.wait_seconds
        step(one)
        assert one.wait_seconds - before < 0.04, "the batch was there"


def test_a_closed_loader_leaves_no_thread() -> None:
    before = threading.active_count()
    for _ in islice(iter(int, 1), 3):
        with loader(Counted(17)) as one:
            step(one)
    assert threading.active_count() == before
