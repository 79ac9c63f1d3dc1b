"""Which checkpoints stay, and that what is removed half does not count."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from workloads.train.checkpoint.folders import prune, remove, survey
from workloads.train.checkpoint.manifest import NAME, Manifest, describe, folder
from workloads.train.checkpoint.store import DirectoryStore
from workloads.train.errors import StoreError


def put(store: DirectoryStore, path: Path, step: int) -> None:
    path.write_text(f"shard of {step}")
    store.put(path, f"{folder(step)}/__0_0.distcp")
    file = describe(path, "__0_0.distcp")
    path.write_text(Manifest(step=step, world_size=1, fingerprints={}, extra={}, files=(file,)).encode())
    store.put(path, f"{folder(step)}/{NAME}")


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    made = DirectoryStore(str(tmp_path / "store"))
    for step in (1, 2, 3, 4):
        put(made, tmp_path / "file", step)
    made.delete([f"{folder(3)}/{NAME}"])
    return made


def test_a_survey_tells_newest_first_and_what_does_not_count(store: DirectoryStore) -> None:
    found = survey(store)
    assert [manifest.step for manifest in found.complete] == [4, 2, 1]
    assert (found.leftovers, found.refused) == ((folder(3),), (f"{folder(3)}: incomplete, no {NAME}",))


@pytest.mark.parametrize(
    ("keep", "spare", "damaged", "gone"),
    [
        (2, 4, (), [1, 3]),
        (1, 4, (), [1, 2, 3]),
        (1, 1, (), [2, 3]),
        (2, 2, (4,), [3, 4]),
        (1, 2, (4,), [1, 3, 4]),
    ],
)
def test_the_newest_good_ones_and_the_last_good_one_stay(
    store: DirectoryStore, keep: int, spare: int, damaged: tuple[int, ...], gone: list[int]
) -> None:
    assert prune(store, keep=keep, spare=folder(spare), damaged=[folder(step) for step in damaged]) == [
        folder(step) for step in gone
    ]
    left = {name.partition("/")[0] for name in store.sizes()}
    assert left == {folder(step) for step in (1, 2, 3, 4) if step not in gone}


def test_a_checkpoint_removed_half_does_not_count(store: DirectoryStore) -> None:
    class Dying(DirectoryStore):
        """A store of a process that dies after its first request to delete."""

        def delete(self, names: Iterable[str]) -> None:
            super().delete(names)
            raise StoreError("killed")

    with pytest.raises(StoreError, match="killed"):
        remove(Dying(store.uri), folder(4))
    assert f"{folder(4)}/__0_0.distcp" in store.sizes()
    assert [manifest.step for manifest in survey(store).complete] == [2, 1]
