"""Whoever tokenises, the bytes are the same and in the same order."""

# Ray types its functions in part only.
# pyright: reportUnknownMemberType=false

import multiprocessing
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.train.data.data_support import WORDS, opened, texts, write
from workloads.train.data import parallel, rows
from workloads.train.data.documents import Recipe
from workloads.train.data.parallel import tokenised
from workloads.train.data.rows import units_of
from workloads.train.data.source import list_files
from workloads.train.errors import UsageError

REPOSITORY = Path(__file__).parents[3]
pytestmark = pytest.mark.xdist_group("ray-data")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A source of several units."""
    monkeypatch.setattr(rows, "UNIT_BYTES", 4000)
    write(tmp_path / "a.jsonl", texts(300))
    write(tmp_path / "b.jsonl", texts(200, length=50))
    return f"{tmp_path}/*.jsonl"


@pytest.fixture
def alone(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The fingerprint of what one process makes of it."""
    with monkeypatch.context() as patch:
        patch.setattr(parallel, "_processors", lambda: 1)
        patch.setattr(parallel, "_ray_processors", lambda: 0)
        found = opened(source, tmp_path / "alone")
    assert found.summary["prepared_by"] == "one process"
    return found.train.fingerprint


def test_processes_make_the_same_bytes(
    source: str, alone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "_processors", lambda: 2)
    found = opened(source, tmp_path / "cache")
    assert found.summary["prepared_by"] == "2 processes"
    assert found.train.fingerprint == alone


def test_an_error_in_a_process_is_one_line(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_processors", lambda: 2)
    write(tmp_path / "c.jsonl", [*texts(100), {"text": ""}])
    with pytest.raises(UsageError, match=r"^data .*c.jsonl row 101: text: found an empty text; .*$"):
        opened(source, tmp_path / "cache")


def test_a_rank_that_may_start_no_process_works_alone(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Daemon:
        daemon = True

    monkeypatch.setattr(parallel, "_processors", lambda: 2)
    monkeypatch.setattr(multiprocessing, "current_process", Daemon)
    who, _ = tokenised(units_of(list_files(source), [["text"]]), recipe())
    assert who == "one process"


def recipe() -> Recipe:
    return Recipe(format="text", text_column="text", words=WORDS, held_out=0, vocab_size=WORDS.vocab_size)


@pytest.fixture(scope="module")
def ray() -> Generator[Any]:
    module = pytest.importorskip("ray")
    # The workers find this program as they do in a job: by a path that the runtime environment names.
    # A Ray of its own: not one that somebody else runs here. Its files are below a short path: sockets lie there.
    files = tempfile.mkdtemp(prefix="r-", dir="/tmp")
    module.init(
        address="local",
        _temp_dir=files,
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=80_000_000,
        runtime_env={"env_vars": {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}},
    )
    yield module
    module.shutdown()
    shutil.rmtree(files, ignore_errors=True)


def test_ray_data_makes_the_same_bytes_and_says_the_same_errors(
    ray: Any, source: str, alone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = opened(source, tmp_path / "cache")
    assert found.summary["prepared_by"] == "Ray Data on 2 processors"
    assert found.train.fingerprint == alone
    bad = write(tmp_path / "c.jsonl", [*texts(200), {"text": ""}])
    with pytest.raises(UsageError, match=r"^data .*c.jsonl row 201: text: found an empty text; .*$"):
        opened(bad, tmp_path / "cache")


def test_where_training_took_all_processors_ray_data_is_not_waited_for(
    ray: Any, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wait for one for ever."""
    monkeypatch.setattr(ray, "available_resources", lambda: {"CPU": 0.5})
    monkeypatch.setattr(parallel, "_processors", lambda: 1)
    who, _ = tokenised(units_of(list_files(source), [["text"]]), recipe())
    assert who == "one process"
