"""`transport LOG...`: what is read, what is printed, and the exit code."""

import gzip
import io
import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.train.transport.nccl_logs import ASKED, FALLBACK, cluster, hsdp, info, write
from workloads.train.transport.command import main
from workloads.train.transport.report import SCHEMA
from workloads.train.transport.sources import chunks


@pytest.fixture
def efa(tmp_path: Path) -> Path:
    folder = tmp_path / "efa"
    folder.mkdir()
    for rank, lines in hsdp(cluster(2, 2)).items():
        write(folder / f"nccl-rank{rank}-worker-{rank // 2}-{900 + rank}.log", lines)
    return folder


def test_a_directory_of_efa_logs_is_good(efa: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(efa)]) == 0
    out = capsys.readouterr().out
    assert "verdict: efa (expected: efa): good" in out
    assert f"proof: {efa}/nccl-rank0-worker-0-900.log:" in out


def test_json_holds_the_schema_and_every_rank(efa: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", *(str(path) for path in efa.iterdir())]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == SCHEMA
    assert report["verdict"] == "efa"
    assert [rank["verdict"] for rank in report["communicators"][0]["ranks"]] == ["efa"] * 4


def test_a_log_given_twice_counts_once(efa: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folded = write(
        efa / "driver.out", [info(cluster(2, 2)[0], 1, "Using network Libfabric") + " [repeated 4x across cluster]"]
    )
    main(["--json", str(folded), str(efa), str(efa / ".." / "efa" / "driver.out")])
    assert json.loads(capsys.readouterr().out)["folded"] == 3


@pytest.mark.parametrize("size", [7, 64, 1000])
def test_lines_are_whole_wherever_a_block_of_the_file_ends(size: int, tmp_path: Path) -> None:
    lines = [info(cluster(2, 2)[0], 1, f"Using network {number} é") for number in range(20)]
    path = write(tmp_path / "a.log", ["", *lines, "no newline at the end"])
    with path.open("rb") as file:
        found = [line for block in chunks(file, size) for line in block]
    assert [line for line in found if line] == [*lines, "no newline at the end"]


def test_a_line_without_end_is_dropped_before_it_fills_the_memory() -> None:
    found = [line for block in chunks(io.BytesIO(b"x" * 10_000_000 + b"\nend\n")) for line in block]
    assert max(map(len, found)) < 3_000_000
    assert "end" in found


@pytest.mark.parametrize(
    ("network", "expect", "code"),
    [
        ("efa", "tcp", 1),
        ("efa", "any", 0),
        (ASKED, "tcp", 0),
        (ASKED, "efa", 1),
        (FALLBACK, "tcp", 1),
        (FALLBACK, "any", 0),
    ],
)
def test_the_exit_code_is_what_was_expected(tmp_path: Path, network: str, expect: str, code: int) -> None:
    log = write(tmp_path / "a.log", [line for lines in hsdp(cluster(2, 2, network)).values() for line in lines])
    assert main([str(log), "--expect", expect]) == code


def test_compressed_logs_and_standard_input(efa: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = sorted(efa.iterdir())
    packed = tmp_path / "rank0.log.gz"
    packed.write_bytes(gzip.compress(paths[0].read_bytes()))
    rest = b"".join(path.read_bytes() for path in paths[1:])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(rest)))
    assert main([str(packed), "-"]) == 0


def test_a_session_directory_of_ray(efa: Path, tmp_path: Path) -> None:
    # Empty files, binary files, and a link to the same logs.
    (efa / "worker-1.err").touch()
    (efa / "core.bin").write_bytes(b"\0\1\2NCCL INFO\0")
    session = tmp_path / "session"
    session.mkdir()
    (session / "logs").symlink_to(efa)
    assert main([str(efa), str(session / "logs"), str(next(efa.glob("*.log")))]) == 0


def _nothing(path: Path) -> None:
    assert not path.exists()


def _empty(path: Path) -> None:
    path.touch()


def _folder(path: Path) -> None:
    path.mkdir()


def _half(path: Path) -> None:
    path.write_bytes(gzip.compress(b"NCCL INFO " * 9999)[:40])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_nothing, "found no such file"),
        (_empty, "found an empty file"),
        (_folder, "found a directory without a log"),
        (_half, "end-of-stream"),
    ],
)
def test_logs_that_cannot_be_read(
    make: Callable[[Path], None], words: str, tmp_path: Path, efa: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    make(path)
    assert main([str(efa), str(path), str(tmp_path / "other")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert words in lines[0]
    assert lines[0].startswith(f"train transport: {path}: ")
    assert "other: found no such file" in lines[1]


def test_empty_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert main(["-"]) == 2
    assert "nothing to read" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--expect", "ib", "x"], ["--exp", "efa", "x"]])
def test_wrong_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "usage:" in capsys.readouterr().err


def test_no_line_of_nccl_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(write(tmp_path / "a", ["SUCCESS", "NCCL"]))]) == 1
    assert main([str(write(tmp_path / "a", ["SUCCESS", "NCCL"])), "--expect", "any"]) == 1
    assert "NCCL_DEBUG=INFO" in capsys.readouterr().out


def test_large_logs_are_read_fast_and_in_little_memory(tmp_path: Path) -> None:
    ranks = cluster(2, 4)
    lines = [line for lines in hsdp(ranks).values() for line in lines]
    noise = [
        info(ranks[0], 5, f"Channel {number % 16:02d}/0 : 7[3] -> 0[0] [receive] via NET/Libfabric/0")
        for number in range(40)
    ]
    noise += ["(RayTrainWorker pid=951, ip=10.0.0.5) step 1 loss 2.345 tokens/s 28000 " * 2] * 40
    path = tmp_path / "big.log"
    with path.open("w") as file:
        file.write("\n".join(lines) + "\n")
        while file.tell() < 10_000_000:
            file.write("\n".join(noise) + "\n")
        file.write("x" * 3_000_000 + "\n")
    started = time.process_time()
    assert main([str(path)]) == 0
    assert time.process_time() - started < 4
    tracemalloc.start()
    with path.open("r+b") as file:
        file.truncate(3_000_000)
    main([str(path)])
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()
