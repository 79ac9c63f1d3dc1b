"""Checkpoints of several ranks: saved by one world, loaded by another; one failing rank fails all with the same words.

Reports: https://github.com/PrimeIntellect-ai/prime-rl/issues/827 (files per rank that no other number of ranks can load),
https://github.com/ray-project/ray/pull/55637 (two ranks of a node in one directory),
https://github.com/ray-project/kuberay/issues/1753 (storage that one node alone sees).
"""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.filesystem import FileSystemReader

from tests.train.checkpoint.checkpoint_support import (
    WIDTH,
    CountingStore,
    Heard,
    build,
    checkpoints_at,
    fill_disk_at,
    flip_a_bit,
    resume,
    save,
)
from tests.train.rank_pool import Ranks
from workloads.train.checkpoint.manifest import NAME, folder
from workloads.train.checkpoint.store import DirectoryStore
from workloads.train.errors import StoreError

pytestmark = pytest.mark.xdist_group("ranks")


def train_and_save(rank: int, place: Path, mesh: tuple[int, ...], local: Path) -> dict[str, torch.Tensor]:
    trained = build(mesh)
    trained.step(1)
    with checkpoints_at(DirectoryStore(str(place)), local_path=str(local)) as made:
        made.prepare(trained.module, trained.optimizer)
        trained.step(2)
        save(made, trained, 2)
    return trained.whole()


def load(
    rank: int, place: Path, mesh: tuple[int, ...], notes: Path, local: Path
) -> tuple[dict[str, torch.Tensor], str]:
    trained = build(mesh, seed=77)
    with checkpoints_at(CountingStore(str(place), notes), local_path=str(local)) as made:
        found = resume(made, trained)
    assert found is not None
    assert found.step == 2
    return trained.whole(), found.rng


@pytest.fixture(scope="module")
def saved(four: Ranks, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, torch.Tensor]]:
    """A checkpoint of two replicas of two shards, the four ranks being one node."""
    path = tmp_path_factory.mktemp("saved")
    found = four(train_and_save, path / "store", (2, 2), path / "local")
    return path / "store", found[0]


@pytest.mark.parametrize("mesh", [(4,), (2, 2), (1, 4), (2,), (1, 2), (1,)], ids=str)
def test_two_replicas_of_two_shards_are_loaded_bit_equal_in_any_world(
    saved: tuple[Path, dict[str, torch.Tensor]],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    mesh: tuple[int, ...],
) -> None:
    place, expected = saved
    world_size = torch.Size(mesh).numel()
    ranks: Ranks = request.getfixturevalue({4: "four", 2: "two", 1: "one"}[world_size])
    for whole, rng in ranks(load, place, mesh, tmp_path / "notes", tmp_path / "local"):
        assert whole.keys() == expected.keys()
        assert all(torch.equal(whole[name], one) for name, one in expected.items())
        assert rng == ("restored" if world_size == 4 else "reseeded")


def test_each_file_is_copied_once_to_a_node(
    saved: tuple[Path, dict[str, torch.Tensor]], four: Ranks, tmp_path: Path
) -> None:
    place, _ = saved
    four(load, place, (2, 2), tmp_path / "notes", tmp_path / "local")
    read = CountingStore(str(place), tmp_path / "notes").read
    shards = [name for name in read if name.endswith((".distcp", ".metadata"))]
    assert sorted(shards) == sorted(
        f"{folder(2)}/{path.name}" for path in (place / folder(2)).iterdir() if path.name.startswith(("__", "."))
    )
    assert list((tmp_path / "local").iterdir()) == [], "the copies go when all have loaded"


def test_a_rank_copies_only_the_files_that_it_needs(
    saved: tuple[Path, dict[str, torch.Tensor]], four: Ranks, tmp_path: Path
) -> None:
    place, _ = saved
    counts = four(load_on_a_node_of_its_own, place, tmp_path)
    num_files = len(list((place / folder(2)).glob("*.distcp")))
    assert all(0 < count < num_files for count in counts), "a quarter of each tensor lies in the files of one half"


def load_on_a_node_of_its_own(rank: int, place: Path, path: Path) -> int:
    notes = path / f"notes-{rank}"
    load(rank, place, (2, 2), notes, path / f"local-{rank}")
    return len([name for name in CountingStore(str(place), notes).read if name.endswith(".distcp")])


def test_replicas_share_the_writing(saved: tuple[Path, dict[str, torch.Tensor]]) -> None:
    """No number is written twice, and no rank of the four writes nothing."""
    place, expected = saved
    assert len(list((place / folder(2)).glob("*.distcp"))) == 8, "model and optimizer of four ranks"
    entries: dict[str, Any] = FileSystemReader(place / folder(2)).read_metadata().state_dict_metadata
    chunks = [chunk for entry in entries.values() for chunk in getattr(entry, "chunks", [])]
    assert sum(chunk.sizes.numel() for chunk in chunks) == sum(one.numel() for one in expected.values())


@pytest.mark.parametrize("mesh", [(2, 2), (4, 1), (4,)], ids=str)
def test_no_rank_holds_more_than_its_share(four: Ranks, tmp_path: Path, mesh: tuple[int, ...]) -> None:
    words = 20_000
    shares = four(hold, tmp_path, mesh, words)
    whole = 3 * 4 * words * WIDTH
    assert sum(shares) == pytest.approx(whole, rel=0.05)
    # Weight and two moments: of two shards each on four ranks, or whole on the replicas, one rank writes two of six, or one of three.
    assert max(shares) < whole * (0.26 if mesh == (4,) else 0.35)


def hold(rank: int, path: Path, mesh: tuple[int, ...], words: int) -> int:
    trained = build(mesh, words=words)
    with checkpoints_at(DirectoryStore(str(path / "store"))) as made:
        return made.prepare(trained.module, trained.optimizer)


def test_a_rank_that_cannot_write_drops_the_checkpoint_of_all(four: Ranks, tmp_path: Path) -> None:
    found = four(save_into_a_full_disk, tmp_path)
    assert len(set(found)) == 1
    assert found[0] == (
        f"the last checkpoint is not durable: checkpoint store {tmp_path}/store: cannot write {folder(2)}/rng-00003.json: "
        f"[Errno 28] No space left on device; last complete checkpoint: {tmp_path}/store/{folder(1)}"
    )
    assert [path.name for path in (tmp_path / "store").iterdir()] == [folder(1)]


def save_into_a_full_disk(rank: int, path: Path) -> str:
    trained, store = build((2, 2)), DirectoryStore(str(path / "store"))
    with checkpoints_at(store) as made:
        trained.step(1)
        save(made, trained, 1)
        if rank == 3:
            fill_disk_at(store, f"{folder(2)}/rng-00003.json")
        dist.barrier()
        with pytest.raises(StoreError) as caught:
            save(made, trained, 2)
    return str(caught.value)


def test_a_file_that_one_rank_finds_damaged_is_passed_over_by_all(four: Ranks, tmp_path: Path) -> None:
    found = four(resume_past_damage, tmp_path)
    assert found == [(1, (f"{folder(2)}: damaged: rng-00002.json",))] * 4


def resume_past_damage(rank: int, path: Path) -> tuple[int, tuple[str, ...]]:
    trained, store = build((2, 2)), DirectoryStore(str(path / "store"))
    with checkpoints_at(store, local_path=str(path / "local")) as made:
        trained.step(1)
        save(made, trained, 1)
        save(made, trained, 2)
        if rank == 0:
            flip_a_bit(path / "store" / folder(2) / "rng-00002.json")
        dist.barrier()
        found = resume(made, trained)
    assert found is not None
    return found.step, found.refused


def test_a_directory_of_each_node_alone_is_no_store(two: Ranks, tmp_path: Path) -> None:
    """https://github.com/ray-project/kuberay/issues/1753: what the ranks of another node wrote is not there for rank 0."""
    for text in two(save_into_a_directory_of_my_own, tmp_path):
        assert (
            "store-0: found nothing of what ranks have written: __2_0.distcp, __3_0.distcp, rng-00001.json; allowed: a place"
            in text
        )


def save_into_a_directory_of_my_own(rank: int, path: Path) -> str:
    trained = build((2,))
    trained.step(1)
    with checkpoints_at(DirectoryStore(str(path / f"store-{rank}"))) as made, pytest.raises(StoreError) as caught:
        save(made, trained, 1)
    return str(caught.value)


def test_only_rank_0_tells(two: Ranks, tmp_path: Path) -> None:
    assert two(save_and_hear, tmp_path) == [[(1, "saved")], []]


def save_and_hear(rank: int, path: Path) -> list[Any]:
    trained, heard = build((2,)), Heard()
    trained.step(1)
    with checkpoints_at(DirectoryStore(str(path / "store")), tell=heard) as made:
        save(made, trained, 1)
    return heard.statuses


def test_a_poll_waits_for_the_slowest_rank(two: Ranks, tmp_path: Path) -> None:
    assert two(poll_beside_a_slow_rank, tmp_path) == [("nothing yet", "saved")] * 2


def poll_beside_a_slow_rank(rank: int, path: Path) -> tuple[str, str]:
    gate = path / "gate"

    class Slow(DirectoryStore):
        def put(self, source: Path, name: str) -> None:
            while rank == 1 and not gate.exists():
                time.sleep(0.005)
            super().put(source, name)

    trained = build((2,))
    trained.step(1)
    with checkpoints_at(Slow(str(path / "store"))) as made:
        made.save(1, trained.module, trained.optimizer, {})
        # Rank 0 has long uploaded its own part at the end of this.
        for _ in range(50):
            made.poll()
            time.sleep(0.01)
        before = "nothing yet" if made.last is None and not (path / "store" / folder(1) / NAME).exists() else "saved"
        dist.barrier()
        gate.touch()
        made.wait()
        return before, made.outcomes[0].status
