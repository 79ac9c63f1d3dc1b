"""Look at what a rehearsal needs and say for each thing what was found and what to do."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rehearsal.engine.locks import find_locks
from rehearsal.engine.stacks import PASSPHRASE_VARIABLES, stack_names
from rehearsal.engine.state import find_state
from rehearsal.errors import RehearsalError
from rehearsal.language_host.packages import required_plugins
from rehearsal.toolchain.build import cached_tool
from rehearsal.toolchain.cache import cache_root
from rehearsal.toolchain.go import find_go
from rehearsal.toolchain.pulumi import official_pulumi
from rehearsal.toolchain.tools import ENGINE, KUBERNETES_PROVIDER


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `fix` is empty when it is as it should be."""

    name: str
    found: str
    fix: str = ""

    @property
    def good(self) -> bool:
        """Return whether nothing is to be done."""
        return not self.fix


def examine(project: Path) -> list[Finding]:
    """Return what was found, in the order in which a rehearsal needs it. Builds and writes nothing."""
    return [
        Finding("python", platform.python_version()),
        *_programs(),
        _providers(),
        _stacks(project),
        _state(project),
        _passphrase(),
        *_locks(project),
    ]


def _programs() -> list[Finding]:
    official = official_pulumi()
    if official is not None:
        return [Finding("pulumi", f"{_version(official.pulumi)} at {official.pulumi}, with its own language host")]
    findings: list[Finding] = []
    go = find_go(ENGINE.sources)
    way_out = "run `make bootstrap`" if go else "install Go 1.26 or newer (https://go.dev/dl/) or Pulumi"
    findings.append(Finding("go", f"{go.version} at {go.command}" if go else "not on PATH"))
    for tool in (ENGINE, KUBERNETES_PROVIDER):
        entry = cached_tool(tool)
        name = f"{tool.name} {tool.version}"
        findings.append(Finding(name, str(entry)) if entry else Finding(name, f"not built in {cache_root()}", way_out))
    return findings


def _version(pulumi: Path) -> str:
    answer = subprocess.run([pulumi, "version"], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or f"`pulumi version` ended with {answer.returncode}"


def _providers() -> Finding:
    wanted = {plugin.name: plugin.version for plugin in required_plugins()}
    found = ", ".join(f"{name} {version}" for name, version in wanted.items())
    if wanted.get("kubernetes") != f"v{KUBERNETES_PROVIDER.version}":
        return Finding(
            "packages", found or "none", f"run `make setup`: expected kubernetes v{KUBERNETES_PROVIDER.version}"
        )
    return Finding("packages", found)


def _stacks(project: Path) -> Finding:
    names = stack_names(project)
    return Finding("stacks", ", ".join(names) or "none", "" if names else f"write a Pulumi.NAME.yaml in {project}")


def _state(project: Path) -> Finding:
    try:
        state = find_state(project)
    except RehearsalError as problem:
        return Finding("state", "refused", str(problem))
    parent = next(path for path in (state.root, *state.root.parents) if path.exists())
    if not os.access(parent, os.W_OK):
        return Finding(
            "state", f"{state.root}, and {parent} is not writable", "set EFA_RAY_TRAIN_STATE to another directory"
        )
    return Finding("state", str(state.root))


def _passphrase() -> Finding:
    used = [name for name in PASSPHRASE_VARIABLES if name in os.environ]
    return Finding("passphrase", f"{used[0]} is set" if used else "one of the rehearsal's own")


def _locks(project: Path) -> list[Finding]:
    try:
        locks = find_locks(find_state(project))
    except RehearsalError:
        return []
    return [
        Finding(
            "lock", f"stack {lock.path.parent.name}: left by pid {lock.pid}, which is gone; the next run removes it"
        )
        if lock.stale
        else Finding(
            "lock",
            f"stack {lock.path.parent.name}: held by {lock.user}@{lock.host} pid {lock.pid}",
            "wait for that run",
        )
        for lock in locks
    ]
