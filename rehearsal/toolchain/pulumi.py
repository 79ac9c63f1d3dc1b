"""Decide which Pulumi a rehearsal uses: the official one where it is installed, else one built from its Go modules."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rehearsal.errors import RehearsalError
from rehearsal.toolchain.build import build_tool, cached_tool
from rehearsal.toolchain.cache import cache_root, ensure_entry
from rehearsal.toolchain.progress import Progress
from rehearsal.toolchain.tools import ENGINE, KUBERNETES_PROVIDER

_PROVIDER_BINARY = "pulumi-resource-kubernetes"
_INSTALL_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The programs of one rehearsal."""

    pulumi: Path
    kubernetes_provider: Path
    language_host: Path | None = None
    """The installed Python language host of an official Pulumi."""
    program_runner: Path | None = None
    """The script of the Pulumi SDK that runs a Python program, for our own language host; None with an official one."""

    @property
    def official(self) -> bool:
        """Return whether Pulumi and its Python language host are installed ones."""
        return self.language_host is not None


@dataclass(frozen=True, slots=True)
class OfficialPulumi:
    """An installed Pulumi."""

    pulumi: Path
    language_host: Path


def official_pulumi() -> OfficialPulumi | None:
    """Return the `pulumi` on PATH when its Python language host is beside it or on PATH, None otherwise."""
    found = shutil.which("pulumi")
    if found is None:
        return None
    beside = Path(found).resolve().parent / "pulumi-language-python"
    host = str(beside) if os.access(beside, os.X_OK) else shutil.which("pulumi-language-python")
    return OfficialPulumi(Path(found), Path(host)) if host else None


def find_toolchain() -> Toolchain:
    """Return the programs of a rehearsal, got now if they are not there yet, with progress on stderr.

    Raises RehearsalError when one cannot be had: no Pulumi and no Go, a failed download or build, a full disk.
    """
    official = official_pulumi()
    with Progress(total=1 if official else 2) as progress:
        if official is not None:
            provider = _provider_for_official(official.pulumi, progress)
            return Toolchain(official.pulumi, provider, language_host=official.language_host)
        engine = build_tool(ENGINE, progress)
        provider = build_tool(KUBERNETES_PROVIDER, progress)
    return Toolchain(
        engine / "pulumi", provider / _PROVIDER_BINARY, program_runner=engine / "pulumi-language-python-exec"
    )


def _provider_for_official(pulumi: Path, progress: Progress) -> Path:
    """Return the Kubernetes provider: the user's own, a cached build, a download, else a build."""
    home = Path(os.environ.get("PULUMI_HOME") or "~/.pulumi").expanduser()
    installed = home / "plugins" / f"resource-kubernetes-v{KUBERNETES_PROVIDER.version}" / _PROVIDER_BINARY
    if installed.exists():
        return installed
    built = cached_tool(KUBERNETES_PROVIDER)
    if built is not None:
        return built / _PROVIDER_BINARY
    key = f"pulumi-kubernetes-{KUBERNETES_PROVIDER.version}-download"
    if not _holds_provider(cache_root() / key) and (reason := _download_failure(pulumi, key)) is not None:
        try:
            return build_tool(KUBERNETES_PROVIDER, progress) / _PROVIDER_BINARY
        except RehearsalError as problem:
            raise RehearsalError(
                f"{problem}; `pulumi plugin install resource kubernetes` had failed as well: {reason}"
            ) from problem
    return cache_root() / key / _PROVIDER_BINARY


def _holds_provider(entry: Path) -> bool:
    return (entry / _PROVIDER_BINARY).is_file()


def _download_failure(pulumi: Path, key: str) -> str | None:
    """Download the plugin with Pulumi itself into the cache; return why it could not be had, None when it was."""
    reason: str | None = None

    class UnreachableError(Exception):
        pass

    def fill(work: Path) -> None:
        nonlocal reason
        with tempfile.TemporaryDirectory(dir=cache_root()) as home:
            try:
                answer = subprocess.run(
                    [pulumi, "plugin", "install", "resource", "kubernetes", KUBERNETES_PROVIDER.version],
                    env={**os.environ, "PULUMI_HOME": home, "PULUMI_SKIP_UPDATE_CHECK": "true"},
                    capture_output=True,
                    text=True,
                    timeout=_INSTALL_TIMEOUT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                reason = f"no answer in {_INSTALL_TIMEOUT_S} s"
                raise UnreachableError from None
            binaries = list(Path(home).glob(f"plugins/resource-kubernetes-v*/{_PROVIDER_BINARY}"))
            if answer.returncode != 0 or not binaries:
                reason = " ".join(answer.stderr.split())[-300:] or f"exit status {answer.returncode}"
                raise UnreachableError
            shutil.move(binaries[0], work / _PROVIDER_BINARY)

    try:
        ensure_entry(key, fill, whole=_holds_provider)
    except UnreachableError:
        return reason
    return None
