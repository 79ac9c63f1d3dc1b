"""Go on from the newest checkpoint that is whole, in a world of any size."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from ..agreement import each, everyone, first_rank
from ..errors import StoreError
from . import rng
from .folders import Survey, remove, survey
from .manifest import Manifest
from .outcome import Resumed
from .reading import Cache, DamagedError, Reading, UnreadableError
from .saving import Saving
from .state import State, blank, difference, fingerprints, put_back, shapes, state_of

RESTORED, RESEEDED = "restored", "reseeded"


def resume(
    checkpoints: Saving, module: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[Resumed | None, tuple[str, ...]]:
    """Load the newest complete checkpoint; return it, or None, and what was passed over on the way, each with its reason.

    Leftovers without a manifest are removed. What looks complete and is damaged stays until a newer checkpoint counts: the fault may lie
    in this node. Nothing is changed where nothing is loaded.

    Raises:
        StoreError: the store cannot be read, no checkpoint can though some are there, or the newest one is of another model, optimizer,
            tokenizer or format.
    """
    started, store = time.monotonic(), checkpoints.store
    # A run that goes back to its last checkpoint may be writing one.
    checkpoints.settle()
    found = first_rank(lambda: _tidied(checkpoints))
    refused, unread = list(found.refused), list[str]()
    checkpoints.refused = found.refused
    for manifest in found.complete:
        fresh = not optimizer.state
        state = state_of(module, optimizer)
        mine = {**checkpoints.identity, **fingerprints(state, optimizer)}
        cache = Cache(store, manifest, checkpoints.config.local_path)
        loading = _Loading(checkpoints, manifest, state, mine, cache)
        try:
            problems = sorted({problem for problem in everyone(loading.prepare) if problem})
            if not problems:
                each(loading.fill)
        finally:
            # All ranks have agreed by now: none of this node reads any more.
            cache.remove()
        if problems:
            refused.append(f"{manifest.folder}: {'; '.join(problems)}")
            if any(problem.startswith(UnreadableError.kind) for problem in problems):
                unread.append(refused[-1])
            else:
                checkpoints.damaged.add(manifest.folder)
            checkpoints.refused = tuple(refused)
            if fresh:
                blank(optimizer)
            continue
        put_back(module, optimizer, state)
        checkpoints.accept(manifest)
        return (
            Resumed(
                step=manifest.step,
                extra=manifest.extra,
                uri=f"{store.uri}/{manifest.folder}",
                world_size=manifest.world_size,
                rng=loading.random(),
                refused=tuple(sorted(refused, reverse=True)),
                seconds=round(time.monotonic() - started, 3),
            ),
            tuple(refused),
        )
    if unread:
        # Not from the beginning: they may be there the next time.
        raise StoreError(f"checkpoint store {store.uri}: no checkpoint can be loaded: {'; '.join(refused)}")
    return None, tuple(refused)


class _Loading:
    """One checkpoint on its way into this rank's state."""

    def __init__(
        self, checkpoints: Saving, manifest: Manifest, state: State, mine: dict[str, str], cache: Cache
    ) -> None:
        self._uri = f"{checkpoints.store.uri}/{manifest.folder}"
        self._streams, self._rank = checkpoints.config.streams, dist.get_rank()
        self._manifest, self._state, self._mine, self._cache = manifest, state, mine, cache
        self._fill: Callable[[], None] | None = None
        self._rng: str | None = None

    def prepare(self) -> str:
        """Have the needed files here and checked; return what is wrong with them, or nothing."""
        try:
            reading = Reading(self._cache)
            self._refuse_others(reading)
            self._fill = reading.prepare(self._state.tree, self._streams)
            if self._manifest.world_size == dist.get_world_size():
                self._rng = self._cache.text(f"rng-{self._rank:05}.json")
        except DamagedError as error:
            return f"{error.kind}: {error}"
        except ValueError as error:
            raise StoreError(f"checkpoint {self._uri}: {error}; take another run name") from error
        return ""

    def fill(self) -> None:
        """Fill the state, in place."""
        assert self._fill is not None  # noqa: S101 -- prepared
        try:
            self._fill()
        except (RuntimeError, AssertionError, ValueError, OSError) as error:
            reason = " ".join(str(error).split())
            raise StoreError(f"checkpoint {self._uri}: cannot be loaded: {reason}; take another run name") from error

    def random(self) -> str:
        """Put the random number generators where they were, or, in a world of another size, in a place of their own."""
        if self._rng is not None:
            rng.restore(self._rng)
            return RESTORED
        rng.reseed(self._manifest.encode(), self._rank)
        return RESEEDED

    def _refuse_others(self, reading: Reading) -> None:
        theirs = self._manifest.fingerprints
        differing = [key for key in {**theirs, **self._mine} if theirs.get(key) != self._mine.get(key)]
        if not differing:
            return
        said = [
            f"model: {difference(reading.shapes, shapes(self._state))}"
            if key == "model"
            else f"{key}: found {theirs.get(key)}; allowed: {self._mine.get(key)}"
            for key in differing
        ]
        raise StoreError(f"checkpoint {self._uri}: is of another run; {'; '.join(said)}; take another run name")


def _tidied(checkpoints: Saving) -> Survey:
    found = survey(checkpoints.store)
    for folder in found.leftovers:
        remove(checkpoints.store, folder)
    return found
