"""Resuming: what comes back, what is passed over and named, what is refused in words.

Reports: https://github.com/ray-project/ray/issues/46814 (a checkpoint is named and not loaded),
https://github.com/ray-project/ray/issues/45516 (a new driver begins anew though there are checkpoints),
https://github.com/michelangelo-ai/michelangelo/pull/1571 (a mechanism that resumes in mocks alone).
"""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.train.checkpoint.checkpoint_support import (
    RefusingStore,
    Trained,
    build,
    checkpoints_at,
    flip_a_bit,
    rank,
    resume,
    save,
    steps,
    store,
    trained,
)
from workloads.train.checkpoint.manifest import NAME, folder
from workloads.train.checkpoint.store import DirectoryStore
from workloads.train.errors import StoreError

__all__ = ["rank", "store", "trained"]


@pytest.fixture
def two(trained: Trained, store: RefusingStore) -> RefusingStore:
    """A store with checkpoints of steps 1 and 2."""
    with checkpoints_at(store) as made:
        save(made, trained, 1)
        save(made, trained, 2)
    return store


def test_a_run_without_checkpoints_begins_at_the_beginning(store: DirectoryStore) -> None:
    fresh, plain = build(), build()
    with checkpoints_at(store) as made:
        assert resume(made, fresh) is None
        assert made.refused == ()
    assert [fresh.step(number) for number in (1, 2)] == [plain.step(number) for number in (1, 2)]


def test_weights_optimizer_and_extra_come_back(trained: Trained, store: DirectoryStore) -> None:
    """The losses that follow are those of the undisturbed run: AdamW's moments and step are part of it."""
    with checkpoints_at(store) as made:
        save(made, trained, 1, {"position": 8, "plan": {"accumulation": 4}})
    for group in trained.optimizer.param_groups:
        group["lr"] = 1e-2
    expected = [trained.step(number) for number in (2, 3, 4)]
    again = build(seed=99)
    again.optimizer.param_groups[0]["lr"] = 0.5
    with checkpoints_at(store) as made:
        found = resume(made, again)
        assert found is not None
        assert (found.step, found.uri, found.world_size, found.rng) == (1, f"{store.uri}/{folder(1)}", 1, "restored")
        assert found.extra == {"position": 8, "plan": {"accumulation": 4}}
        assert made.last == found.uri
    assert again.optimizer.param_groups[0]["lr"] == 1e-2
    assert [again.step(number) for number in (2, 3, 4)] == expected


def test_the_tie_comes_back(trained: Trained, store: DirectoryStore) -> None:
    with checkpoints_at(store) as made:
        save(made, trained, 1)
        again = build(seed=99)
        resume(made, again)
    again.step(1)
    weights = dict(again.module.named_parameters(remove_duplicate=False))
    assert weights["head.weight"] is weights["embed.weight"]


def test_random_numbers_go_on(trained: Trained, store: DirectoryStore) -> None:
    def drawn() -> list[float]:
        return [random.random(), float(np.random.rand()), float(torch.rand(()))]  # noqa: S311

    with checkpoints_at(store) as made:
        save(made, trained, 1)
        expected = drawn()
        drawn()
        resume(made, build(seed=99))
    assert drawn() == expected


def test_a_finished_step_resumed_from_is_not_saved_again(two: DirectoryStore, trained: Trained) -> None:
    with checkpoints_at(two) as made:
        assert resume(made, trained) is not None
        save(made, trained, 2)
        assert made.outcomes == []


@pytest.mark.parametrize("missing", [NAME, "__0_0.distcp", ".metadata", "rng-00000.json"])
def test_what_is_not_whole_is_passed_over_and_named(two: DirectoryStore, trained: Trained, missing: str) -> None:
    """A folder without `.metadata`, as a kill during a save leaves it (https://github.com/ray-project/ray/pull/55637), is one such."""
    two.delete([f"{folder(2)}/{missing}"])
    with checkpoints_at(two) as made:
        found = resume(made, trained)
        assert found is not None
        reason = f"incomplete, no {NAME}" if missing == NAME else f"missing or cut: {missing}"
        assert (found.step, found.refused) == (1, (f"{folder(2)}: {reason}",))
        save(made, trained, 3)
    assert steps(two) == [folder(1), folder(3)]


def test_a_cut_file_is_named(two: DirectoryStore, trained: Trained) -> None:
    file = Path(two.uri) / folder(2) / "__0_0.distcp"
    file.write_bytes(file.read_bytes()[:-1])
    with checkpoints_at(two) as made:
        found = resume(made, trained)
    assert found is not None
    assert (found.step, found.refused) == (1, (f"{folder(2)}: missing or cut: __0_0.distcp",))


@pytest.mark.parametrize("file", ["__0_0.distcp", "__1_0.distcp", ".metadata", "rng-00000.json"])
def test_a_flipped_bit_is_found_and_named(two: DirectoryStore, trained: Trained, file: str) -> None:
    """It stays until a newer one counts: the fault may be this node's."""
    flip_a_bit(Path(two.uri) / folder(2) / file)
    with checkpoints_at(two) as made:
        found = resume(made, trained)
        assert found is not None
        assert (found.step, found.refused) == (1, (f"{folder(2)}: damaged: {file}",))
        assert steps(two) == [folder(1), folder(2)]
        save(made, trained, 2)
        assert made.last == f"{two.uri}/{folder(2)}"
        save(made, trained, 3)
    assert steps(two) == [folder(2), folder(3)]


def test_a_damaged_one_does_not_take_the_place_of_a_good_one(two: DirectoryStore, trained: Trained) -> None:
    flip_a_bit(Path(two.uri) / folder(2) / "__0_0.distcp")
    with checkpoints_at(two) as made:
        resume(made, trained)
        save(made, trained, 3)
    assert steps(two) == [folder(1), folder(3)]


def test_a_flipped_bit_in_a_manifest_is_found_and_named(two: DirectoryStore, trained: Trained) -> None:
    path = Path(two.uri) / folder(2) / NAME
    path.write_text(path.read_text().replace('"position": 16', '"position": 17'))
    with checkpoints_at(two) as made:
        found = resume(made, trained)
    assert found is not None
    assert found.extra == {"position": 8}
    assert found.refused == (f"{folder(2)}: {NAME}: is not as it was written: its own SHA-256 differs",)


def test_an_unreadable_shard_is_passed_over_and_named(two: RefusingStore, trained: Trained) -> None:
    """It is no damage: the store may give it the next time, so it stays."""
    two.refused, two.actions = (f"{folder(2)}/__1_0",), ("get",)
    with checkpoints_at(two) as made:
        found = resume(made, trained)
        assert found is not None
        assert found.step == 1
        assert found.refused == (
            f"{folder(2)}: unreadable: checkpoint store {two.uri}: cannot get {folder(2)}/__1_0.distcp: refused",
        )
        save(made, trained, 3)
    assert steps(two) == [folder(2), folder(3)]


def test_a_store_that_gives_nothing_is_no_reason_to_begin_anew(two: RefusingStore, trained: Trained) -> None:
    two.refused, two.actions = ("distcp",), ("get",)
    with (
        checkpoints_at(two) as made,
        pytest.raises(StoreError, match=r"no checkpoint can be loaded: step-0000000002: unreadable"),
    ):
        resume(made, trained)
    assert steps(two) == [folder(1), folder(2)]


def test_nothing_is_changed_where_all_are_damaged(two: DirectoryStore) -> None:
    """The weights must not be half of what a damaged checkpoint held, nor the optimizer have made a step."""
    for step in (1, 2):
        flip_a_bit(Path(two.uri) / folder(step) / "__1_0.distcp")
    fresh, plain = build(seed=3), build(seed=3)
    with checkpoints_at(two) as made:
        assert resume(made, fresh) is None
        assert made.refused == (f"{folder(2)}: damaged: __1_0.distcp", f"{folder(1)}: damaged: __1_0.distcp")
    assert [fresh.step(number) for number in (1, 2)] == [plain.step(number) for number in (1, 2)]


def test_a_manifest_of_another_format_ends_the_run(two: DirectoryStore, trained: Trained) -> None:
    """Not passed over as damaged: a newer program may have written it."""
    (Path(two.uri) / folder(2) / NAME).write_text('{"format": 3}')
    with (
        checkpoints_at(two) as made,
        pytest.raises(StoreError, match=f"{folder(2)}: {NAME}: found format 3, this program reads 2; move it away"),
    ):
        resume(made, trained)
    assert steps(two) == [folder(1), folder(2)]


def test_another_model_is_refused_in_words(two: DirectoryStore) -> None:
    local = Path(two.uri).parent / "local"
    with checkpoints_at(two, local_path=str(local)) as made, pytest.raises(StoreError) as caught:
        resume(made, build(words=32))
    assert list(local.iterdir()) == [], "nor stays what was fetched to tell"
    assert str(caught.value) == (
        f"checkpoint {two.uri}/{folder(2)}: is of another run; model: embed.weight is [31, 10] there and [32, 10] here; take another run name"
    )
    assert steps(two) == [folder(1), folder(2)]


def test_another_tokenizer_and_optimizer_are_refused_in_words_together(store: DirectoryStore, trained: Trained) -> None:
    with checkpoints_at(store, identity={"tokenizer": "a1"}) as made:
        save(made, trained, 1)
    with checkpoints_at(store, identity={"tokenizer": "b2"}) as made, pytest.raises(StoreError) as caught:
        resume(made, build(optimizer="SGD"))
    assert "tokenizer: found a1; allowed: b2" in str(caught.value)
    assert "optimizer: found AdamW; allowed: SGD" in str(caught.value)


def test_a_run_goes_back_while_a_save_is_under_way(store: DirectoryStore, trained: Trained) -> None:
    with checkpoints_at(store) as made:
        made.save(1, trained.module, trained.optimizer, {})
        expected = trained.step(2)
        found = resume(made, trained)
        assert found is not None
        assert found.step == 1
        assert trained.step(2) == expected
        save(made, trained, 2)


def test_a_full_local_disk_ends_the_run(two: DirectoryStore, trained: Trained, tmp_path: Path) -> None:
    """It is no fault of the checkpoint."""

    class Full(DirectoryStore):
        def get(self, name: str, target: Path) -> None:
            if name.endswith("distcp"):
                target.symlink_to("/dev/full")
            super().get(name, target)

    with (
        checkpoints_at(Full(two.uri), local_path=str(tmp_path / "local")) as made,
        pytest.raises(
            StoreError,
            match=r"^local directory .*/train-cache-.*: cannot hold __._0.distcp of .*\[Errno 28\].*; set checkpoint.local_path",
        ),
    ):
        resume(made, trained)
