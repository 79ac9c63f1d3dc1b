"""The training loop on two ranks, without Ray."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.train.ranks_support import Heard, below, group, run, together
from workloads.train.data import FIRST_LOSS, SEQUENCE, MarkovSource
from workloads.train.errors import StoreError, TrainingError
from workloads.train.loop import SEQUENCES_PER_RANK, Outcome, train
from workloads.train.manifest import folder
from workloads.train.model import build

pytestmark = pytest.mark.xdist_group("ranks")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Heard]:
    """A run of two ranks that nothing disturbed."""
    path = tmp_path_factory.mktemp("whole")
    return run(below(path / "store", steps=12), world_size=2, meeting=path / "meeting")


def alone(options: Any, meeting: Path, heard: Heard | None = None) -> Outcome:
    with group(0, 1, meeting):
        return train(options, heard or Heard(), node="here", device=torch.device("cpu"))


def test_the_loss_begins_at_a_guess_and_falls(whole: tuple[Outcome, Heard]) -> None:
    outcome, heard = whole
    losses = list(heard.losses.values())
    assert losses[0] == pytest.approx(FIRST_LOSS, abs=0.1)
    assert outcome.first_loss == losses[0]
    assert outcome.last_loss == losses[-1]
    assert isinstance(losses[-1], float)
    assert losses[-1] < FIRST_LOSS - 1


def test_ranks_share_the_sequences_of_a_step(whole: tuple[Outcome, Heard], tmp_path: Path) -> None:
    """What one process computes on all of them: neither rank repeats the other, and none is left out."""
    with group(0, 1, tmp_path / "meeting"):
        trained = build(torch.device("cpu"), 1)
        for step in (1, 2):
            loss = trained.loss(MarkovSource().batch((step - 1) * 2 * SEQUENCES_PER_RANK, 2 * SEQUENCES_PER_RANK))
            assert whole[1].losses[step] == pytest.approx(float(loss.detach()), rel=1e-5)
            loss.backward()
            trained.optimizer.step()
            trained.optimizer.zero_grad()


def test_the_events_tell_the_run(whole: tuple[Outcome, Heard]) -> None:
    outcome, heard = whole
    (plan,) = heard.of("plan")
    assert plan["parameters"] in range(100_000, 1_000_000)
    assert (plan["parallel"], plan["backend"], plan["device"], plan["network_checked"]) == (
        "fsdp2",
        "gloo",
        "cpu",
        False,
    )
    ranks: Any = plan["ranks"]
    assert [(rank["rank"], rank["node"]) for rank in ranks] == [(0, "node-0"), (1, "node-1")]
    assert len({rank["pid"] for rank in ranks}) == 2
    assert [event["step"] for event in heard.of("step")] == list(range(1, 13))
    assert [event["step"] for event in heard.of("checkpoint")] == [4, 8, 12]
    assert (outcome.status, outcome.steps, outcome.trained_steps) == ("succeeded", 12, 12)
    tokens = 12 * 2 * SEQUENCES_PER_RANK * SEQUENCE
    assert outcome.tokens_per_second == pytest.approx(tokens / outcome.seconds, rel=0.01)


def test_a_resumed_run_goes_the_way_of_an_undisturbed_one(whole: tuple[Outcome, Heard], tmp_path: Path) -> None:
    first, _ = run(below(tmp_path, steps=6), world_size=2, meeting=tmp_path / "first")
    second, heard = run(below(tmp_path, steps=12), world_size=2, meeting=tmp_path / "second")
    (resumed,) = heard.of("resume")
    assert (resumed["step"], resumed["uri"]) == (6, first.checkpoint)
    assert heard.losses == {step: loss for step, loss in whole[1].losses.items() if int(str(step)) > 6}
    assert (second.first_loss, second.last_loss) == (whole[0].first_loss, whole[0].last_loss)
    assert second.trained_steps == 6


def test_another_number_of_ranks_goes_on_from_the_same_place(tmp_path: Path) -> None:
    """FSDP shards are put together anew; the data goes on after the sequences that were seen."""
    run(below(tmp_path, steps=4), world_size=2, meeting=tmp_path / "two")
    heard = Heard()
    outcome = alone(below(tmp_path, steps=6), tmp_path / "one", heard)
    assert (outcome.status, outcome.trained_steps) == ("succeeded", 2)
    (first,) = [loss for step, loss in heard.losses.items() if step == 5]
    assert isinstance(first, float)
    assert first < 4.7, "a model that was trained for four steps"


def test_a_finished_run_trains_nothing_more(tmp_path: Path) -> None:
    first = alone(below(tmp_path, steps=4), tmp_path / "first")
    second = alone(below(tmp_path, steps=4), tmp_path / "second")
    assert (second.status, second.steps, second.trained_steps) == ("succeeded", 4, 0)
    assert (second.last_loss, second.checkpoint) == (first.last_loss, first.checkpoint)


def test_the_last_step_is_always_saved(tmp_path: Path) -> None:
    assert (
        alone(below(tmp_path, steps=3, checkpoint_every=100), tmp_path / "meeting").checkpoint
        == f"{tmp_path}/run/{folder(3)}"
    )


def test_asked_to_stop_all_ranks_save_and_end_after_the_same_step(tmp_path: Path) -> None:
    outcome, heard = run(below(tmp_path, steps=100), world_size=2, meeting=tmp_path / "meeting", stop_at=5)
    assert (outcome.status, outcome.steps) == ("stopped", 6)
    assert [event["step"] for event in heard.of("checkpoint")] == [4, 6]
    assert outcome.checkpoint == f"{tmp_path}/run/{folder(6)}"


def test_asked_to_stop_in_the_last_step_the_run_has_succeeded(tmp_path: Path) -> None:
    with group(0, 1, tmp_path / "meeting"):
        outcome = train(below(tmp_path, steps=3), Heard(2), node="here", device=torch.device("cpu"))
    assert (outcome.status, outcome.steps) == ("succeeded", 3)


def test_the_fault_point_raises_on_the_last_rank(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"^fault point --fail-at-step=3: raised by rank 1"):
        run(below(tmp_path, fail_at_step=3), world_size=2, meeting=tmp_path / "meeting")


def test_a_store_that_fails_for_one_rank_ends_all_with_the_same_words(tmp_path: Path) -> None:
    """The rank that could write must not wait for the other in a collective."""
    found = together(_train_into_a_full_disk, 2, tmp_path / "meeting", below(tmp_path))
    assert found[0] == found[1]
    assert found[0] == (
        f"checkpoint store {tmp_path}/run: cannot write {folder(4)}/__1_0.distcp: [Errno 28] No space left on device; "
        "last complete checkpoint: none"
    )


def _train_into_a_full_disk(rank: int, options: Any) -> str:
    class Filling(Heard):
        """Fill the disk for rank 1 once the leftovers of other tries were removed."""

        def emit(self, event: Any) -> None:
            if event["event"] == "step" and event["step"] == 1:
                path = Path(options.storage_uri) / folder(4) / "__1_0.distcp.unfinished"
                path.parent.mkdir(parents=True)
                path.symlink_to("/dev/full")

    with pytest.raises(StoreError) as caught:
        train(options, Filling(), node="here", device=torch.device("cpu"))
    return str(caught.value)


def test_a_loss_that_is_no_number_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.train.model.LEARNING_RATE", float("inf"))
    with pytest.raises(TrainingError, match=r"^the loss is nan in step 2; allowed: a finite number$"):
        alone(below(tmp_path), tmp_path / "meeting")
