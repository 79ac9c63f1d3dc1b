"""Which Pulumi a rehearsal takes, with programs on PATH that stand in for the real ones."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rehearsal.errors import RehearsalError
from rehearsal.toolchain.cache import CACHE_VARIABLE
from rehearsal.toolchain.pulumi import find_toolchain
from rehearsal.toolchain.tools import ENGINE, KUBERNETES_PROVIDER, Tool

REPOSITORY = Path(__file__).resolve().parents[2]
VERSION = KUBERNETES_PROVIDER.version
PROVIDER = "pulumi-resource-kubernetes"


@pytest.fixture
def bin_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory on PATH; the cache is empty and there is no plugin of the user's."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "pulumi"))
    return directory


def install(path: Path, script: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_an_installed_pulumi_is_taken_with_its_host_and_the_users_provider(bin_directory: Path, tmp_path: Path) -> None:
    pulumi = install(bin_directory / "pulumi")
    host = install(bin_directory / "pulumi-language-python")
    provider = install(tmp_path / f"pulumi/plugins/resource-kubernetes-v{VERSION}/{PROVIDER}")
    toolchain = find_toolchain()
    assert toolchain.official
    assert toolchain.program_runner is None
    assert (toolchain.pulumi, toolchain.language_host, toolchain.kubernetes_provider) == (pulumi, host, provider)
    assert not (tmp_path / "cache").exists(), "nothing is built"


def test_the_host_beside_a_linked_pulumi_is_found(bin_directory: Path, tmp_path: Path) -> None:
    install(tmp_path / f"pulumi/plugins/resource-kubernetes-v{VERSION}/{PROVIDER}")
    install(tmp_path / "cellar/pulumi")
    host = install(tmp_path / "cellar/pulumi-language-python")
    (bin_directory / "pulumi").symlink_to(tmp_path / "cellar/pulumi")
    assert find_toolchain().language_host == host


def test_a_missing_provider_is_downloaded_by_pulumi_into_the_cache(bin_directory: Path, tmp_path: Path) -> None:
    install(bin_directory / "pulumi-language-python")
    install(
        bin_directory / "pulumi",
        f'[ "$*" = "plugin install resource kubernetes {VERSION}" ] || exit 1\n'
        f'directory="$PULUMI_HOME/plugins/resource-kubernetes-v{VERSION}"\n'
        f'/bin/mkdir -p "$directory" && echo plugin > "$directory/{PROVIDER}"',
    )
    found = find_toolchain().kubernetes_provider
    assert found.read_text() == "plugin\n"
    assert found.is_relative_to(tmp_path / "cache")
    install(bin_directory / "pulumi", "exit 9")
    assert find_toolchain().kubernetes_provider == found, "the second time asks nobody"


def test_no_download_and_no_go_is_one_line_with_both_reasons(bin_directory: Path, tmp_path: Path) -> None:
    install(bin_directory / "pulumi-language-python")
    install(bin_directory / "pulumi", "echo 'error: no route to host' >&2; exit 255")
    with pytest.raises(RehearsalError, match=r"no `go` on PATH.*had failed as well: error: no route to host"):
        find_toolchain()
    left = [path.name for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"]
    assert left == [], "nothing is left half made"


def test_a_pulumi_without_its_language_host_is_not_taken(bin_directory: Path) -> None:
    install(bin_directory / "pulumi")
    with pytest.raises(RehearsalError, match=r"pulumi 3\.274\.1: no `pulumi` and no `go` on PATH"):
        find_toolchain()


def test_the_command_says_it_in_one_line_and_ends_with_2(bin_directory: Path, tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "rehearsal", "bootstrap"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.count("\n") == 1
    assert "install Pulumi" in answer.stderr
    assert not (tmp_path / "cache").exists()


def test_the_pins_agree_with_the_go_modules_and_the_python_packages() -> None:
    engine = (ENGINE.sources / "go.mod").read_text()
    assert f"github.com/pulumi/pulumi/pkg/v3 v{ENGINE.version}\n" in engine
    assert re.search(rf"github.com/pulumi/pulumi/sdk/v3 v{re.escape(ENGINE.version)}\b", engine)
    assert ENGINE.linked_version == f"v{ENGINE.version}"
    provider = (KUBERNETES_PROVIDER.sources / "go.mod").read_text()
    assert f"github.com/pulumi/pulumi-kubernetes/sdk/v4 v{VERSION}\n" in provider
    assert importlib.metadata.version("pulumi-kubernetes") == VERSION
    assert {VERSION} == {KUBERNETES_PROVIDER.linked_version} | {
        file.version for file in KUBERNETES_PROVIDER.files if file.version
    }


@pytest.mark.parametrize("tool", [ENGINE, KUBERNETES_PROVIDER], ids=lambda tool: tool.name)
def test_no_third_party_file_is_kept_beside_the_sources(tool: Tool) -> None:
    assert {path.suffix for path in tool.sources.iterdir()} == {".mod", ".sum", ".go"}
