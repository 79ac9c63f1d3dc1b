"""The record of a run: its verdict, rule by rule, and what `verify` finds."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from workloads.train.checkpoint.store import DirectoryStore
from workloads.train.errors import StoreError
from workloads.train.record import (
    NAME,
    SCHEMA,
    Code,
    Facts,
    Rank,
    Record,
    Verdict,
    code_of,
    judge,
    reference,
    verify,
    versions_loaded,
    write,
)

GOOD = Facts(
    failure=None,
    device="cuda",
    num_nodes=2,
    transport_good=True,
    transport="efa",
    steps=100,
    trained_steps=100,
    skipped_steps=1,
    loss_before=4.0,
    loss_after=3.0,
    last_checkpoint_step=100,
)


def test_a_good_run_is_valid_without_reasons() -> None:
    assert judge(GOOD) == Verdict(status="valid")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"transport_good": False, "transport": "tcp: node a, line 7"}, "transport: not what was asked for: tcp: node a, line 7"),
        ({"transport_good": None}, "transport: not checked; a run over several nodes proves nothing of its network without"),
        ({"trained_steps": 0, "skipped_steps": 0}, "steps: none was trained; the run had 100 already: take another run name, or more steps"),
        ({"skipped_steps": 2}, "steps: 2 of 100 were skipped; allowed: 1% of them"),
        ({"loss_after": 4.0}, "evaluation: held-out loss 4.0000 after training; allowed: less than 4.0000, before it"),
        ({"loss_after": float("nan")}, "evaluation: held-out loss nan after training; allowed: less than 4.0000, before it"),
        ({"loss_after": None}, "evaluation: none after training, though there was one before"),
        ({"last_checkpoint_step": 90}, "checkpoint: the last one is of step 90; allowed: 100, the last step"),
        ({"last_checkpoint_step": None}, "checkpoint: the last one is of step None; allowed: 100, the last step"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_run_that_proves_nothing_is_invalid(change: dict[str, object], reason: str) -> None:
    assert judge(replace(GOOD, **change)) == Verdict(status="invalid", reasons=(reason,))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "change",
    [
        {"device": "cpu", "transport_good": None},
        {"num_nodes": 1, "transport_good": None},
        {"loss_before": None, "loss_after": None},
    ],
    ids=str,
)
def test_what_was_not_asked_for_is_not_missed(change: dict[str, object]) -> None:
    assert judge(replace(GOOD, **change)).status == "valid"  # pyright: ignore[reportArgumentType]


def test_a_run_that_did_not_finish_failed_whatever_else() -> None:
    assert judge(replace(GOOD, failure="rank 3 died", transport_good=False)) == Verdict(
        status="failed", reasons=("rank 3 died",)
    )


def test_all_reasons_are_told_together() -> None:
    assert len(judge(replace(GOOD, transport_good=False, loss_after=5.0, skipped_steps=50)).reasons) == 3


def test_what_nobody_told_of_the_code_is_none() -> None:
    assert code_of({}) == Code(git_commit=None, git_dirty=None, code_sha256=None, image_digest=None)
    told = {
        "TRAIN_GIT_COMMIT": "a1",
        "TRAIN_GIT_DIRTY": "1",
        "TRAIN_CODE_SHA256": "b2",
        "TRAIN_IMAGE_DIGEST": "sha256:c3",
    }
    assert code_of(told) == Code(git_commit="a1", git_dirty=True, code_sha256="b2", image_digest="sha256:c3")
    assert code_of({"TRAIN_GIT_DIRTY": "0"}).git_dirty is False


def test_versions_are_of_what_is_loaded_and_given() -> None:
    import torch

    found = versions_loaded({"libfabric": "2.3.1"})
    assert (found["torch"], found["libfabric"]) == (torch.__version__.partition("+")[0], "2.3.1")
    assert "python" in found


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    made = DirectoryStore(str(tmp_path / "run"))
    for name in ("step-0000000100/manifest.json", "transport.json"):
        (tmp_path / "file").write_text(f"the content of {name}")
        made.put(tmp_path / "file", name)
    return made


@pytest.fixture
def uri(store: DirectoryStore) -> str:
    record = Record(
        run="run",
        started="2026-12-01T00:00:00Z",
        ended="2026-12-01T01:00:00Z",
        verdict=judge(GOOD),
        facts=GOOD,
        code=code_of({"TRAIN_GIT_COMMIT": "a1"}),
        settings={"train": {"steps": 100}},
        versions={"torch": "2.13.0"},
        ranks=(Rank(rank=0, node="a", host="h", device="NVIDIA L4", instance="i-1", topology=("nn-1", "nn-2")),),
        transport={"verdict": "efa"},
        plan={"strategy": "hsdp"},
        metrics={"tokens_per_second": 28_000.0},
        evaluation={"before": 4.0, "after": 3.0},
        checkpoints=({"step": 100, "status": "saved"},),
        files=reference(store, ["step-0000000100/manifest.json", "transport.json"]),
    )
    return write(record, store)


def test_a_record_is_json_with_schema_verdict_and_hashes(uri: str) -> None:
    found = json.loads(Path(uri).read_text())
    assert (found["schema"], found["verdict"]) == (SCHEMA, {"status": "valid", "reasons": []})
    assert found["ranks"][0]["topology"] == ["nn-1", "nn-2"]
    assert [file["name"] for file in found["files"]] == ["step-0000000100/manifest.json", "transport.json"]
    assert all(len(file["sha256"]) == 64 for file in found["files"])


def test_what_is_as_it_was_written_verifies(uri: str) -> None:
    assert verify(uri) == []


def test_every_difference_is_named(uri: str, store: DirectoryStore) -> None:
    root = Path(store.uri)
    (root / "transport.json").write_text("the content of transport.jsom")
    (root / "step-0000000100" / "manifest.json").unlink()
    text = (root / NAME).read_text()
    (root / NAME).write_text(text.replace("28000.0", "82000.0"))
    assert verify(uri) == [
        f"{uri}: is not as it was written: its own SHA-256 differs",
        f"{root}/step-0000000100/manifest.json: is not there",
        f"{root}/transport.json: is not as it was: its SHA-256 differs from the record's",
    ]


def test_a_cut_file_is_named_with_its_size(uri: str, store: DirectoryStore) -> None:
    (Path(store.uri) / "transport.json").write_text("the")
    assert verify(uri) == [f"{store.uri}/transport.json: found 3 bytes; the record says 29"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is none"),
        ("[]", "is none"),
        ("{}", "is none"),
        ('{"schema": "x/9"}', r"found schema 'x/9'; this program reads"),
    ],
)
def test_what_is_no_record_is_refused(uri: str, text: str, said: str) -> None:
    Path(uri).write_text(text)
    with pytest.raises(StoreError, match=rf"^record {uri}: {said}"):
        verify(uri)


def test_a_record_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot read record.json: .*No such file"):
        verify(f"{tmp_path}/{NAME}")
