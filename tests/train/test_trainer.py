"""The loop on two ranks, without Ray: what it computes, says, saves, resumes, refuses."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.train.parallel_support import CPU, Case, batches, build, reference
from tests.train.rank_pool import Ranks, pool
from tests.train.trainer_support import LENGTH, Heard, Nan, config, refused, run
from workloads.train.checkpoint.manifest import folder
from workloads.train.data.batch import IGNORED, Batch
from workloads.train.data.synthetic import MarkovSource
from workloads.train.errors import TrainingError, UsageError
from workloads.train.model import materialise
from workloads.train.optimizer import clip, learning_rate, make_optimizer, set_learning_rate
from workloads.train.prepare import prepare
from workloads.train.trainer import Outcome, Step, Trainer

pytestmark = pytest.mark.xdist_group("ranks")

LOSSES = Path(__file__).parent / "losses"


@pytest.fixture(scope="module")
def whole(two: Ranks, tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Heard]:
    """A run that nothing disturbed."""
    return two(run, config(tmp_path_factory.mktemp("whole")))[0]


CURVES: dict[str, dict[str, Any]] = {
    "fsdp-fp32": {"precision": {"compute": "fp32"}, "plan": {"micro_batch": 2, "strategy": "fsdp"}},
    "hsdp-bf16": {
        "nodes": 2,
        "ranks": 1,
        "precision": {"compute": "bf16"},
        "plan": {"micro_batch": 2, "strategy": "hsdp"},
    },
    "hsdp-bf16-replica-reduce": {
        "nodes": 2,
        "ranks": 1,
        "precision": {"compute": "bf16", "replica_reduce": "bf16"},
        "plan": {"micro_batch": 2, "strategy": "hsdp"},
    },
    "text-packed-fp32": {
        "data": {"source": "builtin"},
        "precision": {"compute": "fp32"},
        "plan": {"micro_batch": 2, "activation_checkpoint": "selective"},
    },
}


@pytest.mark.parametrize("name", CURVES)
def test_the_loss_curve_is_the_stored_one(two: Ranks, name: str, tmp_path: Path) -> None:
    """Compared exactly, as text. A change that moves it on purpose: TRAIN_STORE_LOSSES=1, and say why in the commit."""
    _, heard = two(run, config(tmp_path, **CURVES[name], train={"steps": 20, "deterministic": True}))[0]
    found = "".join(f"{event['step']:>3} {event['loss']:.5f} {event['grad_norm']:.4f}\n" for event in heard.of("step"))
    path = LOSSES / f"{name}.txt"
    if os.environ.get("TRAIN_STORE_LOSSES"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def test_replicas_that_are_summed_in_bf16_learn_as_those_in_fp32() -> None:
    exact, rounded = ([float(line.split()[1]) for line in (LOSSES / f"{name}.txt").read_text().splitlines()] for name in ("hsdp-bf16", "hsdp-bf16-replica-reduce"))  # fmt: skip
    assert exact != rounded
    assert max(abs(one - other) for one, other in zip(exact, rounded, strict=True)) < 0.02


def test_every_step_is_what_one_process_computes(whole: tuple[Outcome, Heard]) -> None:
    """Loss, and the norm that is logged, which is no rank's own (https://github.com/pytorch/pytorch/issues/170862)."""
    module = build(Case())
    materialise(module, CPU, weights=None, seed=7)
    settings = config(Path("/unused"))
    optimizer = make_optimizer(module, settings.optimizer)
    loader = _all_of_a_step(settings)
    for event in whole[1].of("step"):
        batch = next(loader)
        loss, tokens = module(batch.input_ids, batch.position_ids, batch.labels)
        (loss / tokens).backward()
        norm = clip(module.parameters(), settings.optimizer.clip_norm)
        assert event["loss"] == pytest.approx(float(loss.detach() / tokens), rel=1e-5)
        assert event["grad_norm"] == pytest.approx(float(norm), rel=1e-4)
        assert event["tokens"] == int(tokens)
        rate = learning_rate(settings.optimizer, int(str(event["step"])), settings.train.steps)
        assert event["learning_rate"] == rate
        set_learning_rate(optimizer, rate)
        optimizer.step()
        optimizer.zero_grad()


def _all_of_a_step(settings: Any) -> Iterator[Any]:
    from workloads.train.data.state import Loader

    source = MarkovSource(LENGTH, 320, seed=settings.data.seed)
    with Loader(source, seed=settings.data.seed, rank=0, world_size=1, micro_batch=8, accumulation=1) as loader:
        while True:
            yield loader.next_micro_batches()[0]


def test_the_loss_begins_at_a_guess_and_falls(whole: tuple[Outcome, Heard]) -> None:
    outcome, heard = whole
    losses: list[Any] = list(heard.losses.values())
    assert losses[0] == pytest.approx(MarkovSource(LENGTH, 320).first_loss, abs=0.1)
    assert losses[-1] < losses[0] - 0.1
    assert (outcome.first_loss, outcome.last_loss) == (losses[0], losses[-1])


def test_the_events_tell_the_run(whole: tuple[Outcome, Heard]) -> None:
    outcome, heard = whole
    kinds = [event["event"] for event in heard.events]
    assert kinds[:3] == ["transport", "transport", "plan"]
    (plan,) = heard.of("plan")
    ranks: Any = plan["ranks"]
    assert [rank["rank"] for rank in ranks] == [0, 1]
    assert len({rank["pid"] for rank in ranks}) == 2
    assert plan["plan"]["micro_batch"] * plan["plan"]["accumulation"] == 4  # pyright: ignore[reportIndexIssue]
    assert [event["step"] for event in heard.of("step")] == list(range(1, 9))
    assert [event["step"] for event in heard.of("checkpoint")] == [4, 8]
    assert (outcome.status, outcome.steps, outcome.trained_steps, outcome.skipped_steps) == ("succeeded", 8, 8, 0)


def test_a_resumed_run_goes_the_way_of_an_undisturbed_one(
    two: Ranks, whole: tuple[Outcome, Heard], tmp_path: Path
) -> None:
    stopped, _ = two(run, config(tmp_path, checkpoint={"every": 3}), 5)[0]
    assert (stopped.status, stopped.steps) == ("stopped", 6)
    second, heard = two(run, config(tmp_path, checkpoint={"every": 3}))[0]
    (resumed,) = heard.of("resume")
    assert (resumed["step"], resumed["uri"]) == (6, stopped.checkpoint)
    assert heard.losses == {step: loss for step, loss in whole[1].losses.items() if int(str(step)) > 6}
    assert (second.first_loss, second.last_loss) == (whole[0].first_loss, whole[0].last_loss)
    assert second.trained_steps == 2


def test_a_killed_rank_loses_what_came_after_the_last_checkpoint_and_no_more(
    two: Ranks, whole: tuple[Outcome, Heard], tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match=r"^rank 1 died$"):
        two(run, config(tmp_path, checkpoint={"every": 2}, fault={"point": "after-step-6", "action": "kill"}))
    _, heard = two(run, config(tmp_path))[0]
    (resumed,) = heard.of("resume")
    assert resumed["step"] in (2, 4), "the checkpoint of step 4 may have been under way"
    assert heard.losses == {step: loss for step, loss in whole[1].losses.items() if int(str(step)) > resumed["step"]}


def test_a_run_killed_before_a_marker_resumes_from_the_marker_before(two: Ranks, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"^rank 0 died$"):
        two(_killed_at_the_second_marker, config(tmp_path, checkpoint={"every": 2}))
    _, heard = two(run, config(tmp_path))[0]
    (resumed,) = heard.of("resume")
    assert resumed["step"] == 2
    assert resumed["refused"] == (f"{folder(4)}: incomplete, no manifest.json",)


def _killed_at_the_second_marker(rank: int, settings: Any) -> None:
    def spoil(prepared: Any) -> None:
        reached = prepared.checkpoints._reach

        def reach(point: str) -> None:
            if point == "between-shard-and-marker" and prepared.checkpoints.last is not None:
                os.kill(os.getpid(), 9)
            reached(point)

        prepared.checkpoints._reach = reach

    run(rank, settings, spoil=spoil)


def test_another_number_of_ranks_goes_on_from_the_same_place(
    two: Ranks, whole: tuple[Outcome, Heard], tmp_path: Path
) -> None:
    """FSDP shards are put together anew; the data go on after the sequences that were seen; the global batch is the same."""
    two(run, config(tmp_path), 3)
    with pool(1) as one:
        outcome, heard = one(run, config(tmp_path, ranks=1))[0]
    assert (outcome.status, outcome.trained_steps) == ("succeeded", 4)
    for step, loss in heard.losses.items():
        assert loss == pytest.approx(whole[1].losses[step], rel=1e-4)


def test_a_finished_run_trains_nothing_more(two: Ranks, tmp_path: Path) -> None:
    first, _ = two(run, config(tmp_path))[0]
    second, heard = two(run, config(tmp_path))[0]
    assert (second.status, second.steps, second.trained_steps) == ("succeeded", 8, 0)
    assert (second.last_loss, second.checkpoint) == (first.last_loss, first.checkpoint)
    assert heard.of("step") == []


def test_the_last_step_is_always_saved(two: Ranks, tmp_path: Path) -> None:
    outcome, _ = two(run, config(tmp_path, train={"steps": 3}, checkpoint={"every": 100}))[0]
    assert outcome.checkpoint == f"{tmp_path}/store/run/{folder(3)}"


def test_asked_to_stop_in_the_last_step_the_run_has_succeeded(two: Ranks, tmp_path: Path) -> None:
    outcome, _ = two(run, config(tmp_path, train={"steps": 3}), 2)[0]
    assert (outcome.status, outcome.steps) == ("succeeded", 3)


def test_the_fault_of_a_step_is_the_last_ranks(two: Ranks, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"^fault point after-step-3: raised by rank 1"):
        two(run, config(tmp_path, fault={"point": "after-step-3"}))


def test_a_loss_that_is_no_number_names_step_and_batch(two: Ranks, tmp_path: Path) -> None:
    """Micro-batches are two a step: the fourth of a rank is the second of step 2."""
    found = two(refused, config(tmp_path), Nan(1, 3))
    assert found[0] == found[1]
    assert found[0].startswith(
        "step 2: the loss is nan and the norm of the gradient nan; allowed: finite numbers; "
        "no number from rank 1, micro-batch 2 of 2, sequences "
    )
    assert found[0].endswith("; lower optimizer.learning_rate, look at the data, or set anomaly.action to skip")
    assert not list((tmp_path / "store").rglob("manifest.json")), "what is wrong is not saved"


def test_a_step_that_is_no_number_is_left_out_and_counted(
    two: Ranks, whole: tuple[Outcome, Heard], tmp_path: Path
) -> None:
    outcome, heard = two(run, config(tmp_path, anomaly={"action": "skip"}), None, Nan(1, 3))[0]
    assert (outcome.status, outcome.steps, outcome.skipped_steps) == ("succeeded", 8, 1)
    assert [event["skipped"] for event in heard.of("step")] == [step == 2 for step in range(1, 9)]
    (anomaly,) = heard.of("anomaly")
    assert (anomaly["step"], anomaly["action"]) == (2, "skip")
    assert heard.losses[1] == whole[1].losses[1]
    assert all(isinstance(heard.losses[step], float) and heard.losses[step] < 6 for step in range(3, 9))  # pyright: ignore[reportOperatorIssue]


def test_skipping_without_end_ends_the_run(two: Ranks, tmp_path: Path) -> None:
    found = two(refused, config(tmp_path, anomaly={"action": "skip", "most_skipped": 2}), Nan(0, 2, 4))
    assert found[0] == found[1]
    assert found[0].startswith("step 3: the loss is nan")
    assert found[0].endswith("; 2 steps in a row were left out, as many as anomaly.most_skipped allows")


def test_a_learning_rate_without_measure_ends_the_run(two: Ranks, tmp_path: Path) -> None:
    (found, _) = two(refused, config(tmp_path, optimizer={"learning_rate": 1e30}))
    assert "no number from rank 0, micro-batch 1 of 2, sequences " in found


def test_a_full_disk_ends_all_ranks_with_the_same_words(two: Ranks, tmp_path: Path) -> None:
    found = two(_train_into_a_full_disk, config(tmp_path, checkpoint={"every": 2, "max_failures": 1}))
    assert found[0] == found[1]
    assert "[Errno 28] No space left on device" in found[0]
    assert found[0].endswith("last complete checkpoint: none")


def _train_into_a_full_disk(rank: int, settings: Any) -> str:
    def fill(_prepared: Any) -> None:
        path = Path(settings.run.storage_uri) / folder(2) / f"rng-0000{rank}.json.unfinished"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to("/dev/full")

    return refused(rank, settings, spoil=fill)


def test_a_batch_in_which_nothing_counts_moves_nothing(two: Ranks, tmp_path: Path) -> None:
    for steps in two(_train_on_nothing, config(tmp_path, train={"steps": 2})):
        assert steps == [(0.0, 0.0, 0)] * 2


def _train_on_nothing(rank: int, settings: Any) -> list[tuple[float, float, int]]:
    trainer = Trainer(prepare(settings, Heard(), node="here", device=CPU))
    try:
        done = [
            trainer.step([_without_labels(batch) for batch in trainer.prepared.loader.next_micro_batches()])
            for _ in range(2)
        ]
    finally:
        trainer.close()
    return [(one.loss, one.grad_norm, one.tokens) for one in done]


def test_a_step_is_divided_by_the_tokens_of_all_ranks(two: Ranks, tmp_path: Path) -> None:
    """Packed, padded, with prompts: no two micro-batches have as many that count, and none may count for more than it has."""
    data = batches(8)
    assert len({batch.num_tokens for batch in data}) > 4
    wanted = reference(data, seed=7)
    for found in two(_train_on, config(tmp_path), data):
        assert (found.tokens, found.skipped) == (wanted.tokens, False)
        assert found.loss == pytest.approx(wanted.loss, rel=1e-5)
        assert found.grad_norm == pytest.approx(wanted.norm, rel=1e-5)


def _train_on(rank: int, settings: Any, data: list[Batch]) -> Step:
    trainer = Trainer(prepare(settings, Heard(), node="here", device=CPU))
    try:
        return trainer.step(data[rank::2])
    finally:
        trainer.close()


def _without_labels(batch: Batch) -> Batch:
    return Batch(batch.input_ids, torch.full_like(batch.labels, IGNORED), batch.position_ids)


def test_deterministic_runs_are_equal_bit_for_bit(two: Ranks, tmp_path: Path) -> None:
    first, second = (
        two(run, config(tmp_path / name, train={"steps": 4, "deterministic": True}, precision={"compute": "bf16"}))[0][
            1
        ]
        for name in ("a", "b")
    )
    assert first.losses == second.losses


def test_a_world_of_another_size_is_refused(two: Ranks, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^run.num_nodes: found 2 nodes with 2 ranks each, but 2 ranks are there; "):
        two(run, config(tmp_path, nodes=2))


def test_a_model_of_a_folder_is_trained(two: Ranks, tmp_path: Path) -> None:
    """Files as save_pretrained writes them; the first loss is that of these weights."""
    import json

    from safetensors.torch import save_file

    from workloads.train.model_shape import BUILT_IN

    module = build(Case(model="tiny-llama"))
    materialise(module, CPU, weights=None, seed=99)
    (tmp_path / "model").mkdir()
    save_file({name: one.detach() for name, one in module.named_parameters()}, tmp_path / "model" / "model.safetensors")
    (tmp_path / "model" / "config.json").write_text(json.dumps(BUILT_IN["tiny-llama"]))
    settings = config(tmp_path, model={"name": f"{tmp_path}/model"}, train={"steps": 1})
    _, heard = two(run, settings)[0]
    batch = next(_all_of_a_step(settings))
    with torch.no_grad():
        loss, tokens = module(batch.input_ids, batch.position_ids, batch.labels)
    assert heard.losses[1] == pytest.approx(float(loss / tokens), rel=1e-5)
