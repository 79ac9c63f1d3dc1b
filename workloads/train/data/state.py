"""The order in which sequences are trained on: exact, without holding it, and independent of the world size."""

import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import torch

from ..errors import TrainingError
from .batch import Batch
from .sequences import Sequences

AHEAD = 4
"""Micro-batches that are made before they are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataState:
    """How far a run is in its data; what a checkpoint keeps."""

    seed: int
    position: int
    """Sequences that all ranks together have taken."""
    fingerprint: str


def shuffled(seed: int, positions: npt.NDArray[np.int64], num_sequences: int) -> npt.NDArray[np.int64]:
    """Return the number of the sequence at each position of the endless order.

    Each epoch, `num_sequences` positions, is a permutation of its own: a Feistel network over the next power of four, walked until
    it lands inside (Black and Rogaway 2002, "Ciphers with Arbitrary Finite Domains"). A generator of numpy would need the memory, and
    may give other numbers in another version.
    """
    epochs, found = np.divmod(positions, num_sequences)
    half = max(1, (int(num_sequences - 1).bit_length() + 1) // 2)
    keys = _mixed(epochs.astype(np.uint64) ^ _mixed(np.full(1, seed, dtype=np.uint64)))
    values = found.astype(np.uint64)
    outside = np.ones(len(values), dtype=np.bool_)
    while outside.any():
        values[outside] = _feistel(values[outside], keys[outside], np.uint64(half))
        outside = values >= num_sequences
    return values.astype(np.int64)


def _feistel(values: npt.NDArray[np.uint64], keys: npt.NDArray[np.uint64], half: np.uint64) -> npt.NDArray[np.uint64]:
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = values >> half, values & mask
    for turn in range(6):
        left, right = right, left ^ (_mixed(right ^ _mixed(keys + np.uint64(turn))) & mask)
    return (left << half) | right


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the finalizer of SplitMix64 (Steele, Lea and Flood 2014) of each value; it wraps on purpose."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


class Loader:
    """Give one rank its share of each optimizer step, made ahead by a thread.

    A step takes `world_size * micro_batch * accumulation` sequences from the endless order, so every rank gets as many for any
    number of sequences, and an epoch may end inside a step.
    """

    def __init__(
        self,
        sequences: Sequences,
        *,
        seed: int,
        rank: int,
        world_size: int,
        micro_batch: int,
        accumulation: int,
        pin: bool = False,
    ) -> None:
        self._sequences = sequences
        self._rank, self._world_size = rank, world_size
        self._micro_batch, self._accumulation = micro_batch, accumulation
        self._pin = pin
        self.state = DataState(seed=seed, position=0, fingerprint=sequences.fingerprint)
        self.wait_seconds = 0.0
        """Time that the training waited for data, of all steps so far."""
        self._made: queue.Queue[Batch | BaseException] | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def sequences_per_step(self) -> int:
        """Return the sequences that all ranks take in a step."""
        return self._world_size * self._micro_batch * self._accumulation

    @property
    def epoch(self) -> float:
        """Return how often all sequences were trained on."""
        return self.state.position / len(self._sequences)

    @property
    def notes(self) -> list[str]:
        """Return what a reader of the run should know of its data."""
        if len(self._sequences) >= self.sequences_per_step:
            return []
        return [
            f"data: {len(self._sequences)} sequences are fewer than the {self.sequences_per_step} of one step, "
            "so a step trains on some more than once"
        ]

    def resume(self, state: DataState) -> None:
        """Go on where a checkpoint was. Call it before the first step.

        Raises:
            TrainingError: the checkpoint is of other data or of another order.
        """
        problems: list[str] = []
        if state.fingerprint != self.state.fingerprint:
            problems.append(
                f"data: found fingerprint {self.state.fingerprint[:12]}, but the checkpoint was trained on {state.fingerprint[:12]}; "
                "allowed: the same rows, tokenizer, sequence_length and held_out; restore them or begin a run of another name"
            )
        if state.seed != self.state.seed:
            problems.append(
                f"data.seed: found {self.state.seed}; allowed: {state.seed}, with which the checkpoint was trained; set it so"
            )
        if problems:
            raise TrainingError("\n".join(problems))
        self.close()
        self.state = state

    def next_micro_batches(self) -> list[Batch]:
        """Return this rank's micro-batches of the next step, in host memory (pinned where asked for)."""
        if self._made is None:
            self._begin()
        assert self._made is not None  # noqa: S101 -- for the type
        batches: list[Batch] = []
        started = time.monotonic()
        for _ in range(self._accumulation):
            made = self._made.get()
            if isinstance(made, BaseException):
                raise made
            batches.append(made)
        self.wait_seconds += time.monotonic() - started
        self.state = DataState(
            seed=self.state.seed,
            position=self.state.position + self.sequences_per_step,
            fingerprint=self.state.fingerprint,
        )
        return batches

    def numbers(self, position: int) -> list[list[int]]:
        """Return the sequences of this rank in the step that begins at a position, by micro-batch."""
        of_rank = np.arange(self._micro_batch) + self._rank * self._micro_batch
        of_step = np.arange(self._accumulation)[:, None] * (self._world_size * self._micro_batch) + of_rank
        found = shuffled(self.state.seed, position + of_step.ravel(), len(self._sequences))
        return [[int(number) for number in row] for row in found.reshape(of_step.shape)]

    def close(self) -> None:
        """End the thread; what it made ahead is made again."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._made, self._thread = None, None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self) -> None:
        self._over = threading.Event()
        self._made = queue.Queue(AHEAD)
        # torch's current device belongs to a thread, and pinned memory to a device's context.
        device = torch.cuda.current_device() if self._pin else None
        self._thread = threading.Thread(
            target=self._make, args=(self.state.position, self._made, self._over, device), name="data", daemon=True
        )
        self._thread.start()

    def _make(
        self,
        position: int,
        made: "queue.Queue[Batch | BaseException]",
        over: threading.Event,
        device: int | None,
    ) -> None:
        try:
            if device is not None:
                torch.cuda.set_device(device)
            for batch in self._batches(position):
                if not _put(made, batch, over):
                    return
        except BaseException as error:
            _put(made, error, over)

    def _batches(self, position: int) -> Iterator[Batch]:
        while True:
            for numbers in self.numbers(position):
                batch = self._sequences.batch(numbers)
                yield batch.pinned() if self._pin else batch
            position += self.sequences_per_step


def _put(made: "queue.Queue[Batch | BaseException]", value: Batch | BaseException, over: threading.Event) -> bool:
    """Put a value where there is room; tell whether anybody still wants it."""
    while not over.is_set():
        try:
            made.put(value, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False
