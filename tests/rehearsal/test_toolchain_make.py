"""The Makefile's own part of the toolchain: where uv lies, and when it is got."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rehearsal.toolchain.cache import cache_root

MAKEFILE = Path(__file__).resolve().parents[2] / "Makefile"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="runs make")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout without an environment, and no variable that chooses the cache."""
    for name in ("EFA_RAY_TRAIN_CACHE", "XDG_CACHE_HOME", "MAKEFLAGS", "MAKELEVEL"):
        monkeypatch.delenv(name, raising=False)
    directory = tmp_path / "checkout"
    (directory / ".venv").mkdir(parents=True)
    shutil.copy(MAKEFILE, directory)
    for name in ("pyproject.toml", "uv.lock"):
        (directory / name).touch()
    return directory


def make(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *arguments],
        cwd=checkout,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("home", [None, "/home/ann", "/home/ann b"])
def test_uv_lies_in_the_cache_that_python_uses(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    if home is None:
        monkeypatch.delenv("HOME")
    else:
        monkeypatch.setenv("HOME", home)
    assert f'uv="{cache_root()}/uv-' in make(checkout, "-n", "setup").stdout


def test_a_cache_with_a_space_is_used(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EFA_RAY_TRAIN_CACHE", str(tmp_path / "a b"))
    planned = make(checkout, "-n", "setup").stdout
    uv = Path(planned.split('uv="', 1)[1].split('"', 1)[0])
    uv.parent.mkdir(parents=True)
    uv.write_text('#!/bin/sh\necho "$@" > ran\n')
    uv.chmod(0o755)
    answer = make(checkout, "setup")
    assert answer.returncode == 0, answer.stderr
    assert (checkout / "ran").read_text() == "sync --frozen\n"


def test_a_relative_home_is_one_line(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "rel")
    answer = make(checkout, "setup")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "cache: found 'rel/.cache/efa-ray-train'; allowed: an absolute path; set " in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_an_environment_that_is_up_to_date_needs_no_uv(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EFA_RAY_TRAIN_CACHE", str(tmp_path / "empty"))
    (checkout / ".venv/.ready").touch()
    answer = make(checkout, "setup")
    assert answer.returncode == 0, answer.stderr
    assert not (tmp_path / "empty").exists()
