"""Checkpoints of one rank: what counts, what does not, what stays, and when training stands still."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import json
import threading
from pathlib import Path

import pytest
import torch

from tests.train.checkpoint.checkpoint_support import (
    Heard,
    RefusingStore,
    Trained,
    build,
    checkpoints_at,
    fill_disk_at,
    rank,
    save,
    steps,
    store,
    trained,
)
from workloads.train.checkpoint.manifest import NAME, folder
from workloads.train.checkpoint.store import DirectoryStore
from workloads.train.errors import StoreError, TrainingError

__all__ = ["rank", "store", "trained"]


def test_the_manifest_names_every_file(trained: Trained, store: DirectoryStore) -> None:
    heard = Heard()
    with checkpoints_at(store, tell=heard, files={"config.json": b"{}"}, identity={"tokenizer": "abc"}) as made:
        save(made, trained, 3)
    manifest = json.loads((Path(store.uri) / folder(3) / NAME).read_text())
    sizes = {f"{folder(3)}/{file['name']}": file["bytes"] for file in manifest["files"]}
    assert sizes == {name: size for name, size in store.sizes().items() if not name.endswith(NAME)}
    assert {".metadata", "rng-00000.json", "model/config.json"} < {file["name"] for file in manifest["files"]}
    assert (manifest["extra"], manifest["fingerprints"]["tokenizer"]) == ({"position": 24}, "abc")
    (event,) = heard.events
    assert (event["status"], event["uri"]) == ("saved", f"{store.uri}/{folder(3)}")
    assert (event["num_files"], event["bytes"]) == (len(sizes), sum(sizes.values()))


def test_model_and_optimizer_lie_in_files_apart(trained: Trained, store: DirectoryStore) -> None:
    """An export reads a third of the bytes."""
    with checkpoints_at(store) as made:
        save(made, trained, 1)
    names = [name for name in store.sizes() if name.endswith(".distcp")]
    assert len(names) == 2


def test_training_goes_on_while_files_are_uploaded(trained: Trained, tmp_path: Path) -> None:
    """What is saved is the state at the call, though the weights have moved on when it is written."""
    gate = threading.Event()

    class Slow(DirectoryStore):
        def put(self, source: Path, name: str) -> None:
            gate.wait(60)
            super().put(source, name)

    store = Slow(str(tmp_path / "store"))
    with checkpoints_at(store) as made:
        expected = trained.whole()
        made.save(1, trained.module, trained.optimizer, {})
        trained.step(2)
        made.poll()
        assert made.last is None, "nothing counts yet, and the poll did not wait"
        gate.set()
        made.wait()
        assert made.last == f"{store.uri}/{folder(1)}"
        again = build(seed=6)
        assert made.resume(again.module, again.optimizer)
    found = again.whole()
    assert all(torch.equal(found[name], one) for name, one in expected.items())


def test_a_poll_commits_what_is_uploaded(trained: Trained, store: DirectoryStore) -> None:
    heard = Heard()
    with checkpoints_at(store, tell=heard) as made:
        made.save(1, trained.module, trained.optimizer, {})
        for _ in range(1000):
            made.poll()
            if heard.events:
                break
            threading.Event().wait(0.01)
        assert heard.statuses == [(1, "saved")]
        made.poll()
        made.wait()
        assert len(heard.events) == 1


@pytest.mark.parametrize(("when_busy", "statuses"), [("wait", ["saved", "saved"]), ("skip", ["skipped", "saved"])])
def test_one_save_is_under_way_at_a_time(trained: Trained, tmp_path: Path, when_busy: str, statuses: list[str]) -> None:
    gate = threading.Event()

    class Slow(DirectoryStore):
        def put(self, source: Path, name: str) -> None:
            gate.wait(60)
            super().put(source, name)

    heard = Heard()
    with checkpoints_at(Slow(str(tmp_path / "store")), tell=heard, when_busy=when_busy) as made:
        made.save(1, trained.module, trained.optimizer, {})
        if when_busy == "wait":
            threading.Timer(0.2, gate.set).start()
        made.save(2, trained.module, trained.optimizer, {})
        gate.set()
        made.wait()
    assert [event["status"] for event in heard.events] == statuses
    if when_busy == "skip":
        assert heard.events[0]["reason"] == "the save of step 1 is not durable yet"
    else:
        stall = heard.events[1]["stall_seconds"]
        assert isinstance(stall, float)
        assert stall >= 0.2, "the wait for the first one is the second one's"


def test_the_last_save_is_never_skipped(trained: Trained, tmp_path: Path) -> None:
    gate = threading.Event()

    class Slow(DirectoryStore):
        def put(self, source: Path, name: str) -> None:
            gate.wait(60)
            super().put(source, name)

    with checkpoints_at(Slow(str(tmp_path / "store")), when_busy="skip") as made:
        made.save(1, trained.module, trained.optimizer, {})
        threading.Timer(0.2, gate.set).start()
        made.save(2, trained.module, trained.optimizer, {}, last=True)
        made.wait()
        assert [outcome.status for outcome in made.outcomes] == ["saved", "saved"]


def test_a_step_that_is_saved_is_not_saved_again(trained: Trained, store: DirectoryStore) -> None:
    with checkpoints_at(store) as made:
        save(made, trained, 1)
        save(made, trained, 1)
        assert len(made.outcomes) == 1


def test_the_newest_stay(trained: Trained, store: DirectoryStore) -> None:
    with checkpoints_at(store, keep=3) as made:
        for number in (8, 9, 10, 11):
            save(made, trained, number)
    assert steps(store) == [folder(9), folder(10), folder(11)]


def test_buffers_are_made_at_the_start_and_training_begins_as_without(store: DirectoryStore) -> None:
    """torch makes an optimizer's state by a step; it must not count."""
    plain, prepared = build(), build()
    with checkpoints_at(store) as made:
        assert made.prepare(prepared.module, prepared.optimizer) > 3 * 31 * 10 * 4
        assert not prepared.optimizer.state
        assert [prepared.step(number) for number in (1, 2, 3)] == [plain.step(number) for number in (1, 2, 3)]
        save(made, prepared, 3)


def test_a_state_of_changed_form_is_saved_as_it_is_now(trained: Trained, store: DirectoryStore) -> None:
    """Buffers and layout are of the first save; a scheduler made after it adds to the optimizer's groups."""
    with checkpoints_at(store) as made:
        save(made, trained, 1)
        trained.optimizer.param_groups[0]["initial_lr"] = 0.25
        trained.step(2)
        save(made, trained, 2)
        again = build(seed=6)
        again.optimizer.param_groups[0]["initial_lr"] = 0.5
        assert made.resume(again.module, again.optimizer)
    assert again.optimizer.param_groups[0]["initial_lr"] == 0.25
    assert again.step(3) == trained.step(3)


def test_before_the_first_step_there_is_nothing_to_save(store: DirectoryStore) -> None:
    fresh = build()
    with (
        checkpoints_at(store) as made,
        pytest.raises(TrainingError, match=r"^checkpoint of step 0: found an optimizer that"),
    ):
        made.save(0, fresh.module, fresh.optimizer, {})
    assert not fresh.optimizer.state


def test_an_optimizer_without_state_is_saved(store: DirectoryStore) -> None:
    trained = build(optimizer="SGD")
    trained.step(1)
    with checkpoints_at(store) as made:
        save(made, trained, 1)


@pytest.mark.parametrize("extra", [{"tensor": torch.ones(1)}, {"loss": float("nan")}], ids=["tensor", "nan"])
def test_extra_that_is_no_json_is_said(trained: Trained, store: DirectoryStore, extra: dict[str, object]) -> None:
    with (
        checkpoints_at(store) as made,
        pytest.raises(TrainingError, match=r"^checkpoint of step 1: extra: found .*; allowed: JSON"),
    ):
        made.save(1, trained.module, trained.optimizer, extra)


@pytest.mark.parametrize("file", [".metadata", "__0_0.distcp", "rng-00000.json", NAME])
def test_a_full_disk_drops_a_checkpoint_and_names_the_last_good_one(
    trained: Trained, store: DirectoryStore, file: str
) -> None:
    heard = Heard()
    with checkpoints_at(store, tell=heard) as made:
        save(made, trained, 1)
        fill_disk_at(store, f"{folder(2)}/{file}")
        with pytest.raises(StoreError) as caught:
            save(made, trained, 2)
        no_room = f"checkpoint store {store.uri}: cannot write {folder(2)}/{file}: [Errno 28] No space left on device"
        assert (
            str(caught.value)
            == f"the last checkpoint is not durable: {no_room}; last complete checkpoint: {store.uri}/{folder(1)}"
        )
        assert heard.statuses == [(1, "saved"), (2, "dropped")]
        assert (heard.events[1]["reason"], heard.events[1]["uri"]) == (no_room, f"{store.uri}/{folder(1)}")
        assert steps(store) == [folder(1)], "what was written goes, so the next one finds the room"
        save(made, trained, 3)
        assert steps(store) == [folder(1), folder(3)]


def test_the_run_ends_when_so_many_saves_in_a_row_failed(trained: Trained, store: RefusingStore) -> None:
    def try_to_save(step: int, *, fails: bool) -> None:
        store.refused = (folder(step),) if fails else ()
        made.save(step, trained.module, trained.optimizer, {})
        made.settle()

    with checkpoints_at(store, max_failures=2) as made:
        try_to_save(1, fails=True)
        try_to_save(2, fails=False)
        try_to_save(3, fails=True)
        with pytest.raises(StoreError) as caught:
            try_to_save(4, fails=True)
        assert [outcome.status for outcome in made.outcomes] == ["dropped", "saved", "dropped", "dropped"]
    text = str(caught.value)
    assert text.startswith(f"2 checkpoints in a row could not be written: checkpoint store {store.uri}: cannot put ")
    assert text.endswith(f"; last complete checkpoint: {store.uri}/{folder(2)}")


def test_a_checkpoint_that_failed_before_the_last_one_ends_no_run(trained: Trained, store: RefusingStore) -> None:
    with checkpoints_at(store) as made:
        store.refused = (folder(1),)
        made.save(1, trained.module, trained.optimizer, {})
        made.settle()
        save(made, trained, 2)
        assert made.last == f"{store.uri}/{folder(2)}"


def test_what_cannot_be_removed_of_a_dropped_one_is_said(trained: Trained, store: RefusingStore) -> None:
    store.refused, store.actions = (folder(1),), ("put", "delete")
    # One file gets there before the store refuses.
    (Path(store.uri) / folder(1)).mkdir(parents=True)
    (Path(store.uri) / folder(1) / "__9_0.distcp").write_bytes(b"x")
    with checkpoints_at(store) as made:
        made.save(1, trained.module, trained.optimizer, {})
        with pytest.raises(StoreError, match=r"cannot put .*refused; what was written of it stays: .*cannot delete"):
            made.wait()


def test_a_checkpoint_counts_though_older_ones_cannot_be_removed(trained: Trained, store: RefusingStore) -> None:
    heard = Heard()
    with checkpoints_at(store, keep=1, tell=heard) as made:
        save(made, trained, 1)
        store.refused, store.actions = (folder(1),), ("delete",)
        save(made, trained, 2)
    assert heard.statuses == [(1, "saved"), (2, "saved")]
    assert str(heard.events[1]["reason"]).startswith("older ones were not removed: ")


def test_a_local_directory_that_cannot_be_is_said(tmp_path: Path, store: DirectoryStore) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StoreError, match=r"^local directory .*/file/x: .*Not a directory.*; set checkpoint.local_path"),
        checkpoints_at(store, local_path=str(tmp_path / "file" / "x")),
    ):
        pass


def test_other_files_of_the_run_are_left_alone(trained: Trained, store: DirectoryStore) -> None:
    note = Path(store.uri) / "notes" / "a.txt"
    note.parent.mkdir(parents=True)
    note.write_text("ours")
    with checkpoints_at(store) as made:
        made.resume(trained.module, trained.optimizer)
        save(made, trained, 1)
    assert note.read_text() == "ours"


def test_nothing_stays_on_the_local_disk(trained: Trained, store: DirectoryStore, tmp_path: Path) -> None:
    local = tmp_path / "local"
    with checkpoints_at(store, local_path=str(local)) as made:
        save(made, trained, 1)
        assert [path.name for path in local.rglob("*") if path.is_file()] == ["lock"]
        made.resume(trained.module, trained.optimizer)
    assert list(local.iterdir()) == []
