"""Where the world of a checkout is, and whether it stands: a file that its daemon writes and everybody else reads."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rehearsal.engine.state import State
from rehearsal.errors import RehearsalError
from rehearsal.local_aws import kube
from rehearsal.providers.aws.api import ENDPOINT as AWS_ENDPOINT


@dataclass(frozen=True, slots=True)
class Places:
    """The files of a world, below the state of its checkout."""

    root: Path

    @property
    def record(self) -> Path:
        """Return the file that says where everything is, there for as long as all of it is ready."""
        return self.root / "world.json"

    @property
    def lock(self) -> Path:
        """Return the file that the daemon holds locked for as long as it lives."""
        return self.root / "lock"

    @property
    def faults(self) -> Path:
        """Return the file of faults that the local AWS reads."""
        return self.root / "faults.json"

    @property
    def processes(self) -> Path:
        """Return the directory of pid files and logs."""
        return self.root / "processes"

    @property
    def cluster(self) -> Path:
        """Return the directory of the control plane: certificates, kubeconfig, etcd's data."""
        return self.root / "cluster"

    @property
    def pods(self) -> Path:
        """Return the directory of the volumes of pods."""
        return self.root / "pods"

    @property
    def sessions(self) -> Path:
        """Return the directory of Ray's sessions: a short path, since sockets lie below it and theirs may have 107 characters."""
        digest = hashlib.sha256(str(self.root).encode()).hexdigest()[:8]
        return Path("/tmp") / f"ert-{os.getuid()}-{digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A world that stands."""

    pid: int
    """Of the daemon."""
    stack: str
    """The stack that it stands for."""
    aws_endpoint: str
    kubeconfig: str
    kubectl: str
    overrides: Mapping[str, object] = field(default_factory=dict[str, object])
    """Settings that differ from the stack's file in this world, by key without the project's name."""
    used: bool = False
    """Whether it has an EKS cluster; without one its control plane is empty."""


def places(state: State) -> Places:
    """Return the places of the world of `state`, whether there is one or not."""
    return Places(state.root / "world")


def write_record(where: Places, world: World) -> None:
    """Write the record, whole or not at all."""
    partial = where.record.with_suffix(".partial")
    partial.touch(mode=0o600)
    partial.write_text(json.dumps(asdict(world)), encoding="utf-8")
    partial.replace(where.record)


def find_world(state: State) -> World | None:
    """Return the world that stands in `state`, None when there is none or its daemon has ended.

    Raises RehearsalError for a record that is no world's.
    """
    where = places(state)
    if not is_kept(where) or not where.record.exists():
        return None
    text = where.record.read_text(encoding="utf-8")
    try:
        return World(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise RehearsalError(
            f"{where.record}: found {text[:80]!r}; expected another form; run `make rehearse-down` with the version that wrote it"
        ) from error


def is_kept(where: Places) -> bool:
    """Return whether a daemon lives there, ready or not."""
    try:
        descriptor = os.open(where.lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def engine_variables(world: World) -> dict[str, str]:
    """Return the variables by which the engine's provider stand-ins find the world."""
    return {AWS_ENDPOINT: world.aws_endpoint, kube.FILE: world.kubeconfig}
