"""What a run leaves when it has ended: whether it learned, its model, and its record."""

from pathlib import Path
from typing import Any

import pytest

from tests.train.rank_pool import Ranks
from tests.train.trainer_support import Heard, config, run
from workloads.train import record
from workloads.train.checkpoint.store import open_store
from workloads.train.config import Config
from workloads.train.data.prepare import Data
from workloads.train.errors import UsageError
from workloads.train.prepare import refuse_other_data
from workloads.train.recorder import TRANSPORT, Recorder
from workloads.train.trainer import Outcome
from workloads.train.transport.gate import checking

pytestmark = pytest.mark.xdist_group("ranks")


def learning(path: Path, steps: int = 6) -> Config:
    return config(
        path,
        run={"record_path": f"{path}/records"},
        train={"steps": steps},
        data={"source": "builtin", "held_out": 0.01},
        checkpoint={"every": 3},
    )


def written(settings: Config, heard: Heard, outcome: Outcome | None, failure: str | None = None) -> dict[str, Any]:
    """Record what was heard and return the record, which holds what it says."""
    recorder = Recorder(settings)
    for event in heard.events:
        recorder.take(event)
    told = {field: getattr(outcome, field) for field in outcome.__slots__} if outcome else None
    uri = recorder.write(told, failure)
    assert uri is not None
    assert uri == f"{settings.run.record_path}/run/record.json"
    assert record.verify(uri) == []
    return record.read(uri)


def test_a_run_is_evaluated_before_and_after_and_leaves_a_model_and_a_record(two: Ranks, tmp_path: Path) -> None:
    settings = learning(tmp_path)
    outcome, heard = two(run, settings)[0]
    before, after = heard.of("eval")
    assert (before["when"], before["step"], after["when"], after["step"]) == ("before", 0, "after", 6)
    assert after["loss"] < before["loss"]  # pyright: ignore[reportOperatorIssue]
    exported = f"{tmp_path}/store/run/export"
    assert outcome.export == exported
    assert sorted(open_store(exported).sizes()) == ["config.json", "model.safetensors"]

    found = written(settings, heard, outcome)
    assert found["verdict"] == {"status": "valid", "reasons": []}
    assert found["evaluation"]["after"]["loss"] == after["loss"]
    assert [one["step"] for one in found["checkpoints"]] == [3, 6]
    assert [one["name"] for one in found["files"]] == [TRANSPORT]
    assert found["transport"]["verdict"] == "gloo"
    assert [step["step"] for step in found["metrics"]["curve"]] == [1, 2, 3, 4, 5, 6]


def test_a_run_that_goes_on_compares_with_what_was_before_its_first_step(two: Ranks, tmp_path: Path) -> None:
    _, first = two(run, learning(tmp_path, 3))[0]
    settings = learning(tmp_path, 6)
    outcome, second = two(run, settings)[0]
    assert second.of("eval")[0] == first.of("eval")[0], "not evaluated anew at step 3"
    assert written(settings, second, outcome)["facts"]["loss_before"] == first.of("eval")[0]["loss"]


def test_a_run_that_failed_has_a_record_that_says_so(tmp_path: Path) -> None:
    heard = Heard()
    # A try has begun to look at its network, and has found nothing out.
    heard.emit(checking("run"))
    found = written(learning(tmp_path), heard, None, "rank 1 died: SIGKILL")
    assert found["verdict"] == {"status": "failed", "reasons": ["rank 1 died: SIGKILL"]}
    assert found["transport"] is None


def test_steps_that_were_made_again_are_recorded_once(tmp_path: Path) -> None:
    heard = Heard()
    for step, loss in ((1, 5.0), (2, 4.0), (3, 3.9), (2, 4.1)):
        heard.emit({"event": "step", "step": step, "loss": loss})
    found = written(learning(tmp_path), heard, None, "stopped")
    assert [(step["step"], step["loss"]) for step in found["metrics"]["curve"]] == [(1, 5.0), (2, 4.1)]


def test_nothing_is_written_where_nobody_asked_for_it(tmp_path: Path) -> None:
    assert Recorder(config(tmp_path)).write(None, None) is None
    assert list(tmp_path.iterdir()) == []


class Packed:
    """Sequences of which only the fingerprint is asked."""

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint


def differing(rank: int, same: bool) -> str:
    data = Data(train=Packed("a" * 64 if same else "ab"[rank] * 64), held_out=None, words=None, summary={})  # pyright: ignore[reportArgumentType]
    try:
        refuse_other_data(data, f"node-{rank}")
    except UsageError as error:
        return str(error)
    return ""


def test_nodes_that_packed_different_data_are_refused(two: Ranks) -> None:
    assert two(differing, True) == ["", ""]
    for said in two(differing, False):
        assert said.startswith("data.source: found aaaaaaaaaaaa on node node-0 and bbbbbbbbbbbb on node node-1; ")
