"""Where one checkout keeps the state of its rehearsals: outside the checkout, private to the user."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from rehearsal.errors import RehearsalError
from rehearsal.toolchain.places import STATE_VARIABLE, named_directory

_MARKER = "checkout"
"""A file with the path of the checkout; a directory without it is none of ours and is never removed."""


@dataclass(frozen=True, slots=True)
class State:
    """The state directory of one project and the places in it."""

    root: Path

    @property
    def backend(self) -> Path:
        """Return the directory of Pulumi's file backend: stacks, history, locks."""
        return self.root / "backend"

    @property
    def home(self) -> Path:
        """Return PULUMI_HOME: plugins, workspaces, logs."""
        return self.root / "pulumi"

    @property
    def project(self) -> Path:
        """Return the directory of the stack settings that the engine may write to, copies of the project's own."""
        return self.root / "project"

    @property
    def passphrase(self) -> Path:
        """Return the file of the passphrase that is made when the user has set none."""
        return self.root / "passphrase"


def find_state(project: Path) -> State:
    """Return the state of `project`: $EFA_RAY_TRAIN_STATE, else a directory named by a hash of the project's path.

    Nothing is made yet. Raises RehearsalError when it would lie inside the project, where the engine must not write,
    and when a directory is named by a relative path.
    """
    project = project.resolve()
    chosen = named_directory(STATE_VARIABLE)
    if chosen is not None:
        root = chosen.resolve()
    else:
        base = named_directory("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
        root = (base / "efa-ray-train" / hashlib.sha256(str(project).encode()).hexdigest()[:12]).resolve()
    if root.is_relative_to(project):
        raise RehearsalError(
            f"{STATE_VARIABLE}: {root} lies inside the checkout {project}; set it to a directory outside, or unset it"
        )
    return State(root)


def open_state(project: Path) -> State:
    """Return the state of `project` with its directories made. Raises RehearsalError when they cannot be."""
    state = find_state(project)
    try:
        state.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        marker = state.root / _MARKER
        if not marker.exists():
            if any(state.root.iterdir()):
                raise RehearsalError(
                    f"{STATE_VARIABLE}: {state.root} is not empty and not a rehearsal's; set it to a new directory, or unset it"
                )
            marker.write_text(f"{project.resolve()}\n", encoding="utf-8")
        for directory in (state.backend, state.home, state.project):
            directory.mkdir(exist_ok=True)
    except OSError as error:
        raise RehearsalError(
            f"state {state.root}: {error.strerror or error}; needs a writable directory: set {STATE_VARIABLE} to another one"
        ) from error
    return state


def is_there(state: State) -> bool:
    """Return whether the state has been made. Raises RehearsalError when what is there is not one of ours."""
    if not state.root.exists():
        return False
    if not (state.root / _MARKER).exists():
        raise RehearsalError(
            f"state {state.root}: no file `{_MARKER}` in it, so it is not a rehearsal's; remove it by hand if you mean to"
        )
    return True


def remove_state(state: State) -> bool:
    """Remove a state directory; return whether there was one. Raises RehearsalError when it is not one of ours."""
    if not is_there(state):
        return False
    shutil.rmtree(state.root)
    return True
