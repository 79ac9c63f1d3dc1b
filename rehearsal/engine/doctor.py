"""Look at what a rehearsal needs and say for each thing what was found and what to do."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rehearsal.cluster.programs import tools_to_build
from rehearsal.engine.locks import find_locks
from rehearsal.engine.stacks import PASSPHRASE_VARIABLES, stack_names
from rehearsal.engine.state import find_state
from rehearsal.errors import RehearsalError
from rehearsal.helm import HELM_VARIABLE
from rehearsal.language_host.packages import required_plugins
from rehearsal.toolchain.build import cached_tool
from rehearsal.toolchain.cache import cache_root
from rehearsal.toolchain.go import find_go
from rehearsal.toolchain.places import CACHE_VARIABLE, STATE_VARIABLE
from rehearsal.toolchain.pulumi import official_pulumi
from rehearsal.toolchain.tools import ENGINE, HELM, KUBERAY_OPERATOR, KUBERNETES_PROVIDER, Tool


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
        _writable("cache", cache_root(), CACHE_VARIABLE),
        _providers(),
        _stacks(project),
        _state(project),
        _passphrase(),
        *_locks(project),
    ]


def _programs() -> list[Finding]:
    findings: list[Finding] = []
    tools: list[Tool] = []
    official = official_pulumi()
    if official is not None:
        found = f"{_version(official.pulumi)} at {official.pulumi}, with its own language host"
        findings.append(Finding("pulumi", found))
    else:
        tools += [ENGINE, KUBERNETES_PROVIDER]
    helm, named = shutil.which("helm"), os.environ.get(HELM_VARIABLE)
    if named:
        good = os.access(named, os.X_OK) and Path(named).is_file()
        fix = "" if good else f"set {HELM_VARIABLE} to the binary of Helm 3, or unset it"
        findings.append(Finding("helm", named if good else f"{named} cannot be run", fix))
    elif helm is not None:
        findings.append(Finding("helm", helm))
    else:
        tools.append(HELM)
    tools += [KUBERAY_OPERATOR, *tools_to_build()]
    return findings + _built(tools)


def _built(tools: Sequence[Tool]) -> list[Finding]:
    """Look for builds of `tools` in the cache, and for the Go that would make those that are missing."""
    entries = [(tool, cached_tool(tool)) for tool in tools]
    missing = [tool for tool, entry in entries if entry is None]
    go = _go(missing)
    findings = [go] if tools else []
    for tool, entry in entries:
        way_out = (
            "run `make bootstrap`" if go.good else f"install Go 1.26 or newer (https://go.dev/dl/) or {tool.official}"
        )
        name = f"{tool.name} {tool.version}"
        findings.append(Finding(name, str(entry)) if entry else Finding(name, f"not built in {cache_root()}", way_out))
    return findings


def _go(missing: Sequence[Tool]) -> Finding:
    try:
        go = find_go((missing or [ENGINE])[0].sources)
    except RehearsalError as problem:
        return Finding("go", "does not run", str(problem))
    if go is not None:
        return Finding("go", f"{go.version} at {go.command}")
    if not missing:
        return Finding("go", "not on PATH, and nothing is left to build")
    names = ", ".join(tool.name for tool in missing)
    return Finding("go", "not on PATH", f"install Go 1.26 or newer (https://go.dev/dl/); it has to build {names}")


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
    return _writable("state", state.root, STATE_VARIABLE)


def _writable(name: str, directory: Path, variable: str) -> Finding:
    parent = next(path for path in (directory, *directory.parents) if path.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        fault = "is not writable" if parent.is_dir() else "is not a directory"
        return Finding(name, f"{directory}, and {parent} {fault}", f"set {variable} to another directory")
    return Finding(name, str(directory))


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
