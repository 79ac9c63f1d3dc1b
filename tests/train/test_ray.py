"""The whole program as a job of a real Ray: two nodes, a rank on each."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.train.rank_pool import pool
from tests.train.ray_support import job, ray_cluster
from tests.train.trainer_support import run
from workloads.train.checkpoint.manifest import folder
from workloads.train.cli import parse

# With the other tests that start a Ray, one after the other: two at once starve each other.
pytestmark = pytest.mark.xdist_group("stage")

STEPS = 60
ARGUMENTS = [
    "--model=tiny-qwen2",
    "--num-nodes=2",
    "--gpus-per-node=4",
    "--ranks-per-node=1",
    "--network=efa",
    "--device=cpu",
    "--set=data.source=synthetic",
    "--set=data.sequence_length=32",
    "--set=optimizer.learning_rate=3e-3",
    "--set=precision.compute=fp32",
    # What is measured at the start must not decide it: the runs are compared bit for bit.
    "--set=plan.strategy=hsdp",
    "--set=plan.micro_batch=8",
    "--set=plan.activation_checkpoint=none",
    "--set=plan.reshard_after_forward=false",
    "--set=transport.measure=false",
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ray_cluster() as found:
        yield found


def test_a_killed_rank_is_replaced_and_the_run_goes_the_way_of_an_undisturbed_one(address: str, tmp_path: Path) -> None:
    store = f"{tmp_path}/store"
    arguments = [*ARGUMENTS, f"--storage-path={store}", "--run-name=killed", f"--steps={STEPS}", "--checkpoint-every=5"]
    with job(address, tmp_path / "job", arguments) as started:
        plan = started.until("plan")
        assert len({rank["node"] for rank in plan["ranks"]}) == 2, "one rank a node"
        started.until("step", step=7)
        os.kill(plan["ranks"][1]["pid"], signal.SIGKILL)
        again = started.until("plan", **{"try": 2})
        assert {rank["pid"] for rank in again["ranks"]}.isdisjoint(rank["pid"] for rank in plan["ranks"])
        assert started.end() == 0, "\n".join(started.lines)
    (resumed,) = started.of("resume")
    assert resumed["step"] >= 5
    assert resumed["step"] % 5 == 0
    (result,) = started.of("result")
    assert (result["status"], result["tries"], result["steps"]) == ("succeeded", 2, STEPS)
    assert result["checkpoint"] == f"{store}/killed/{folder(STEPS)}"
    assert started.lines[-1].startswith('{"event": "result"')

    undisturbed = _losses(tmp_path)
    # Steps after the last checkpoint were trained twice, and both times alike.
    assert all(event["loss"] == undisturbed[event["step"]] for event in started.of("step"))
    assert {event["step"] for event in started.of("step")} == set(range(1, STEPS + 1))
    assert result["last_loss"] == undisturbed[STEPS]


def _losses(tmp_path: Path) -> dict[object, object]:
    arguments = [*ARGUMENTS, f"--storage-path={tmp_path}/undisturbed", "--run-name=run", f"--steps={STEPS}"]
    with pool(2) as two:
        _, heard = two(run, parse([*arguments, f"--checkpoint-every={STEPS}"], {}))[0]
    return heard.losses


def test_an_error_in_a_rank_ends_the_job_at_once_with_its_own_words_last(address: str, tmp_path: Path) -> None:
    arguments = [
        *ARGUMENTS,
        f"--storage-path={tmp_path}",
        "--run-name=failing",
        "--steps=20",
        "--checkpoint-every=2",
        "--fail-at-step=7",
    ]
    with job(address, tmp_path / "job", arguments) as started:
        assert started.end() == 1
    # Checkpoints are written beside the training: that of step 6 may have been under way.
    said = [
        f"fault point after-step-7: raised by rank 1; last complete checkpoint: {tmp_path}/failing/{folder(step)}"
        for step in (4, 6)
    ]
    assert started.lines[-1] in [f"train: {line}" for line in said]
    (result,) = started.of("result")
    assert (result["status"], result["tries"]) == ("failed", 1)
    assert result["reason"] in said


def test_sigterm_saves_and_ends(address: str, tmp_path: Path) -> None:
    """As `timeout` in the job's entry point does at the deadline."""
    arguments = [
        *ARGUMENTS,
        f"--storage-path={tmp_path}",
        "--run-name=stopped",
        "--steps=100000",
        "--checkpoint-every=100000",
    ]
    with job(address, tmp_path / "job", arguments) as started:
        started.until("step", step=3)
        started.process.send_signal(signal.SIGTERM)
        assert started.end() == 143
    (result,) = started.of("result")
    assert result["status"] == "stopped"
    assert result["checkpoint"] == f"{tmp_path}/stopped/{folder(result['steps'])}"
    assert started.lines[-1].startswith(f"train: stopped by SIGTERM after step {result['steps']} of 100000; ")
