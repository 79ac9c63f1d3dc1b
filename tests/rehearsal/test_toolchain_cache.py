"""The cache holds whole entries or none, whoever builds, fails or is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rehearsal.errors import RehearsalError
from rehearsal.toolchain.cache import CACHE_VARIABLE, cache_root, ensure_entry

REPOSITORY = Path(__file__).resolve().parents[2]

# Builds entry "tool": writes half of it, tells so, waits, writes the other half, counts the build.
BUILDER = """
import sys, time
from pathlib import Path
from rehearsal.toolchain.cache import cache_root, ensure_entry

def make(work):
    (work / "first").write_text("1")
    print("half", flush=True)
    time.sleep(float(sys.argv[1]))
    (work / "second").write_text("2")
    with (cache_root() / "builds").open("a") as count:
        count.write("x")

print(ensure_entry("tool", make, on_wait=lambda: print("waiting", flush=True)), flush=True)
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def start_builder(seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(seconds)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )


def temporary(cache: Path) -> list[Path]:
    return list(cache.glob(".tool.tmp-*"))


def test_two_runs_at_once_build_once(cache: Path) -> None:
    with start_builder(1.5) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "half\n"
        assert not (cache / "tool").exists(), "half an entry is not seen"
        with start_builder(0) as second:
            assert second.communicate(timeout=30)[0] == f"waiting\n{cache / 'tool'}\n"
    assert (cache / "builds").read_text() == "x"
    assert sorted(path.name for path in (cache / "tool").iterdir()) == ["first", "second"]


def test_a_killed_build_leaves_no_entry_and_the_next_one_cleans_up(cache: Path) -> None:
    with start_builder(60) as builder:
        assert builder.stdout is not None
        builder.stdout.readline()
        builder.send_signal(signal.SIGKILL)
    assert not (cache / "tool").exists()
    assert len(temporary(cache)) == 1
    begun = time.monotonic()
    with start_builder(0) as builder:
        assert builder.communicate(timeout=30)[0] == f"half\n{cache / 'tool'}\n", "no lock is left to wait for"
    assert time.monotonic() - begun < 30
    assert temporary(cache) == []
    assert sorted(path.name for path in (cache / "tool").iterdir()) == ["first", "second"]


def test_a_failing_build_leaves_nothing(cache: Path) -> None:
    def fail(work: Path) -> None:
        (work / "first").write_text("1")
        raise RuntimeError("the compiler fell over")

    with pytest.raises(RuntimeError, match="fell over"):
        ensure_entry("tool", fail)
    assert temporary(cache) == []
    assert not (cache / "tool").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="writes to /dev/full")
def test_a_full_disk_is_one_line_and_leaves_nothing(cache: Path) -> None:
    def fill(work: Path) -> None:
        (work / "first").symlink_to("/dev/full")
        (work / "first").write_text("1")

    with pytest.raises(RehearsalError, match=r"cache .*: No space left on device; .* set EFA_RAY_TRAIN_CACHE"):
        ensure_entry("tool", fill)
    assert temporary(cache) == []
    assert not (cache / "tool").exists()


def test_a_cache_that_cannot_be_made_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file" / "cache"))
    with pytest.raises(RehearsalError, match=r"cache .*/file/cache: Not a directory; .* set EFA_RAY_TRAIN_CACHE"):
        ensure_entry("tool", lambda _work: None)


@pytest.mark.parametrize(
    ("own", "xdg", "expected"),
    [("/a/own", "/b", "/a/own"), ("", "/b", "/b/efa-ray-train"), ("", "", "~/.cache/efa-ray-train")],
)
def test_where_the_cache_lies(monkeypatch: pytest.MonkeyPatch, own: str, xdg: str, expected: str) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, own)
    monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    assert str(cache_root()) == os.path.expanduser(expected)  # noqa: PTH111 -- compared as the user wrote it
