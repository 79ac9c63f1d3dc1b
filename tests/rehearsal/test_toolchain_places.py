"""Directories out of the environment: absolute, or refused before anything is written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "variable",
    ["HOME", "EFA_RAY_TRAIN_CACHE", "EFA_RAY_TRAIN_STATE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"],
)
def test_a_relative_directory_is_one_line_and_makes_nothing(tmp_path: Path, variable: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "rehearsal", "doctor"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), variable: "a/b"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == f"{variable}: found 'a/b'; allowed: an absolute path; set it to one, or unset it\n"
    assert list(tmp_path.iterdir()) == []
