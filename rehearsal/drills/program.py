"""A copy of the program that may be broken."""

from __future__ import annotations

import shutil
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
_PARTS = ("infra", "policies", "settings", "workloads")


def copy_program(directory: Path) -> Path:
    """Copy all that Pulumi runs into `directory`, made now, and return it."""
    for part in _PARTS:
        shutil.copytree(REPOSITORY / part, directory / part, ignore=shutil.ignore_patterns("__pycache__"))
    files = (*REPOSITORY.glob("*.py"), *REPOSITORY.glob("Pulumi*.yaml"))
    for file in (*files, REPOSITORY / "pyproject.toml", REPOSITORY / "uv.lock"):
        shutil.copy(file, directory)
    # An official Pulumi looks for the environment beside the program.
    (directory / ".venv").symlink_to(REPOSITORY / ".venv")
    return directory
