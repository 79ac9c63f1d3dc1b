"""Checkpoints of one rank: what counts, what does not, and what stays."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import torch

from tests.train.ranks_support import group
from workloads.train.checkpoint import KEPT, Checkpoints
from workloads.train.data import MarkovSource
from workloads.train.errors import StoreError
from workloads.train.manifest import NAME, Progress, folder
from workloads.train.model import Trained, build
from workloads.train.store import DirectoryStore


@pytest.fixture(autouse=True)
def alone(tmp_path: Path) -> Iterator[None]:
    with group(0, 1, tmp_path / "meeting"):
        yield


@pytest.fixture
def trained() -> Trained:
    return build(torch.device("cpu"), 1)


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(str(tmp_path / "store"))


def step(trained: Trained, number: int) -> float:
    loss = trained.loss(MarkovSource().batch(number, 4))
    loss.backward()
    trained.optimizer.step()
    trained.optimizer.zero_grad()
    return float(loss.detach())


def at(number: int) -> Progress:
    return Progress(step=number, position=8 * number, first_loss=4.0, last_loss=3.0)


def steps(store: DirectoryStore) -> list[str]:
    return sorted({name.partition("/")[0] for name in store.sizes()})


def fill_disk_at(store: DirectoryStore, name: str) -> None:
    """Let writing one file end with ENOSPC, by the system's own hand."""
    path = Path(store.uri) / f"{name}.unfinished"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("/dev/full")


def test_a_run_without_checkpoints_begins_at_the_beginning(trained: Trained, store: DirectoryStore) -> None:
    assert Checkpoints(store).resume(trained) == (None, [])


def test_weights_optimizer_and_position_come_back(trained: Trained, store: DirectoryStore) -> None:
    step(trained, 1)
    saved = Checkpoints(store).save(trained, at(1))
    expected = [step(trained, number) for number in (2, 3, 4)]
    again = build(torch.device("cpu"), 1)
    checkpoints = Checkpoints(store)
    assert checkpoints.resume(again) == (at(1), [])
    assert checkpoints.last == saved.uri == f"{store.uri}/{folder(1)}"
    assert [step(again, number) for number in (2, 3, 4)] == expected, "AdamW's moments are part of it"


def test_the_tie_of_embedding_and_head_comes_back(trained: Trained, store: DirectoryStore) -> None:
    Checkpoints(store).save(trained, at(1))
    again = build(torch.device("cpu"), 1)
    Checkpoints(store).resume(again)
    step(again, 1)
    weights = dict(again.module.named_parameters(remove_duplicate=False))
    assert weights["lm_head.weight"] is weights["model.embed_tokens.weight"]


def test_the_manifest_names_every_file(trained: Trained, store: DirectoryStore) -> None:
    saved = Checkpoints(store).save(trained, at(3))
    manifest = json.loads((Path(saved.uri) / NAME).read_text())
    sizes = {f"{folder(3)}/{file['name']}": file["bytes"] for file in manifest["files"]}
    assert sizes == {name: size for name, size in store.sizes().items() if not name.endswith(NAME)}
    assert (saved.num_files, saved.bytes) == (len(sizes), sum(sizes.values()))
    assert manifest["progress"]["position"] == 24


def test_the_newest_two_stay(trained: Trained, store: DirectoryStore) -> None:
    checkpoints = Checkpoints(store)
    for number in (8, 9, 10, 11):
        checkpoints.save(trained, at(number))
    assert steps(store) == [folder(10), folder(11)]
    assert KEPT == 2


@pytest.mark.parametrize("missing", [NAME, "__0_0.distcp", ".metadata"])
def test_what_is_not_whole_does_not_count_and_is_removed(trained: Trained, store: DirectoryStore, missing: str) -> None:
    checkpoints = Checkpoints(store)
    checkpoints.save(trained, at(1))
    checkpoints.save(trained, at(2))
    store.delete([f"{folder(2)}/{missing}"])
    assert checkpoints.resume(trained) == (at(1), [])
    assert steps(store) == [folder(1)]


def test_a_cut_file_does_not_count(trained: Trained, store: DirectoryStore) -> None:
    checkpoints = Checkpoints(store)
    checkpoints.save(trained, at(1))
    file = Path(checkpoints.save(trained, at(2)).uri) / "__0_0.distcp"
    file.write_bytes(file.read_bytes()[:-1])
    assert checkpoints.resume(trained)[0] == at(1)


def test_a_damaged_file_is_refused_by_its_hash(trained: Trained, store: DirectoryStore) -> None:
    checkpoints = Checkpoints(store)
    checkpoints.save(trained, at(1))
    file = Path(checkpoints.save(trained, at(2)).uri) / "__0_0.distcp"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    assert checkpoints.resume(trained) == (at(1), [f"{folder(2)}: __0_0.distcp"])
    assert steps(store) == [folder(1)]


@pytest.mark.parametrize("file", [".metadata", "__0_0.distcp", NAME])
def test_a_full_disk_ends_with_store_error_and_last_checkpoint(
    trained: Trained, store: DirectoryStore, file: str
) -> None:
    checkpoints = Checkpoints(store)
    checkpoints.save(trained, at(1))
    fill_disk_at(store, f"{folder(2)}/{file}")
    with pytest.raises(StoreError) as caught:
        checkpoints.save(trained, at(2))
    assert str(caught.value) == (
        f"checkpoint store {store.uri}: cannot write {folder(2)}/{file}: [Errno 28] No space left on device; "
        f"last complete checkpoint: {store.uri}/{folder(1)}"
    )
    assert Checkpoints(store).resume(trained) == (at(1), [])
    assert steps(store) == [folder(1)], "what was written goes, so the next try finds the room"


def test_without_any_checkpoint_the_error_says_none(trained: Trained, store: DirectoryStore) -> None:
    fill_disk_at(store, f"{folder(2)}/{NAME}")
    with pytest.raises(StoreError, match=r"last complete checkpoint: none$"):
        Checkpoints(store).save(trained, at(2))


def test_a_full_staging_disk_is_said(
    trained: Trained, store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    (tmp_path / "file").write_text("")
    with pytest.raises(
        StoreError,
        match=r"^staging directory below .*/file: .*Not a directory.*; set TMPDIR .*; last complete checkpoint: none$",
    ):
        Checkpoints(store).save(trained, at(1))


def test_a_step_is_saved_again_without_counting_meanwhile(trained: Trained, store: DirectoryStore) -> None:
    checkpoints = Checkpoints(store)
    checkpoints.save(trained, at(1))
    fill_disk_at(store, f"{folder(1)}/__0_0.distcp")
    with pytest.raises(StoreError):
        checkpoints.save(trained, at(1))
    assert Checkpoints(store).resume(trained) == (None, [])


def test_a_manifest_of_another_format_ends_the_run(trained: Trained, store: DirectoryStore) -> None:
    """Not removed as incomplete: a newer program may have written it."""
    saved = Checkpoints(store).save(trained, at(1))
    (Path(saved.uri) / NAME).write_text('{"format": 2}')
    with pytest.raises(StoreError, match=f"{folder(1)}/{NAME}: found format 2, this program reads 1; move it away"):
        Checkpoints(store).resume(trained)
    assert steps(store) == [folder(1)]


def test_a_checkpoint_of_another_model_ends_the_run(
    trained: Trained, store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    Checkpoints(store).save(trained, at(1))
    monkeypatch.setattr("workloads.train.data.VOCABULARY", 256)
    with pytest.raises(
        StoreError, match=f"^checkpoint {store.uri}/{folder(1)}: is not one of this model: .*256.*; take another"
    ):
        Checkpoints(store).resume(build(torch.device("cpu"), 1))
    assert steps(store) == [folder(1)]


def test_other_files_of_the_run_are_left_alone(trained: Trained, store: DirectoryStore) -> None:
    note = Path(store.uri) / "notes" / "a.txt"
    note.parent.mkdir(parents=True)
    note.write_text("ours")
    Checkpoints(store).resume(trained)
    Checkpoints(store).save(trained, at(1))
    assert note.read_text() == "ours"


def test_a_store_that_cannot_delete_ends_the_run(trained: Trained, tmp_path: Path) -> None:
    class Clinging(DirectoryStore):
        def delete(self, names: Iterable[str]) -> None:
            if found := [name for name in names if folder(1) in name and name.endswith(".distcp")]:
                raise StoreError(f"cannot delete {found[0]}")

    checkpoints = Checkpoints(Clinging(str(tmp_path / "store")))
    checkpoints.save(trained, at(1))
    checkpoints.save(trained, at(2))
    with pytest.raises(
        StoreError, match=rf"cannot delete {folder(1)}/__0_0\.distcp; last complete checkpoint: .*{folder(3)}$"
    ):
        checkpoints.save(trained, at(3))
