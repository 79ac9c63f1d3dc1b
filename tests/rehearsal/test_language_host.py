"""What the language host answers to the engine."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf import empty_pb2, json_format

from rehearsal.language_host.protocol import language_pb2, plugin_pb2
from tests.rehearsal.language_host_support import (
    ENGINE_ADDRESS,
    Host,
    open_host,
)


@pytest.fixture(params=["", "json.tool no_such_module"], ids=["fresh", "spare"])
def host(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Host]:
    """A host whose program gets a process of its own, and one whose program takes the place of a spare."""
    with open_host(tmp_path, request.param) as opened:
        yield opened


def test_run_gives_the_program_its_arguments_and_configuration(host: Host) -> None:
    response = host.run("")
    assert (response.error, response.bail) == ("", False)
    seen = json.loads((host.program / "seen.json").read_text())
    assert seen["arguments"] == [
        "--project=shop",
        "--stack=dev",
        f"--pwd={host.program}",
        "--monitor=127.0.0.1:2",
        f"--engine={ENGINE_ADDRESS}",
        "--dry_run=true",
        "--parallel=7",
        "--organization=organization",
        f"--root_directory={host.program}",
    ]
    assert json.loads(seen["PULUMI_CONFIG"]) == {"shop:size": "3"}
    assert json.loads(seen["PULUMI_CONFIG_SECRET_KEYS"]) == ["shop:key"]
    assert seen["cwd"] == str(host.program)
    assert seen["path"] == str(host.program.parent), "the directory of the runner, as when Python starts it"


def test_run_says_how_a_program_failed(host: Host) -> None:
    response = host.run("sys.exit(3)")
    assert (response.error, response.bail) == ("the program ended with exit status 3", False)


def test_run_says_which_signal_ended_a_program(host: Host) -> None:
    assert host.run("os.kill(os.getpid(), 9)").error == "the program was ended by signal 9"


def test_run_adds_nothing_when_the_program_has_told_its_failure(host: Host) -> None:
    response = host.run("sys.exit(32)")
    assert (response.error, response.bail) == ("", True)


def test_required_packages_are_those_of_the_installed_python_packages(host: Host) -> None:
    request = language_pb2.GetRequiredPackagesRequest(info=host.info())
    response = host.ask("GetRequiredPackages", request, language_pb2.GetRequiredPackagesResponse)
    packages: list[dict[str, str]] = json_format.MessageToDict(response)["packages"]
    found = {package["name"]: package["version"] for package in packages}
    assert found == {name: f"v{importlib.metadata.version(f'pulumi-{name}')}" for name in ("aws", "eks", "kubernetes")}
    assert {package["kind"] for package in packages} == {"resource"}


def test_the_host_knows_itself(host: Host) -> None:
    info = host.ask("GetPluginInfo", empty_pb2.Empty(), plugin_pb2.PluginInfo)
    assert info.version == importlib.metadata.version("pulumi")
    about = host.ask("About", language_pb2.AboutRequest(), language_pb2.AboutResponse)
    assert (about.executable, about.version) == (sys.executable, sys.version.split()[0])


def test_an_attaching_engine_replaces_the_engine_address(host: Host) -> None:
    request = language_pb2.LanguageHandshakeRequest(engine_address="127.0.0.1:9")
    host.ask("Handshake", request, language_pb2.LanguageHandshakeResponse)
    host.run("")
    assert "--engine=127.0.0.1:9" in json.loads((host.program / "seen.json").read_text())["arguments"]


def test_program_dependencies_are_the_installed_distributions(host: Host) -> None:
    def names(*, transitive: bool) -> dict[str, str]:
        request = language_pb2.GetProgramDependenciesRequest(transitiveDependencies=transitive)
        response = host.ask("GetProgramDependencies", request, language_pb2.GetProgramDependenciesResponse)
        return {found.name: found.version for found in response.dependencies}

    assert names(transitive=True)["pulumi"] == importlib.metadata.version("pulumi")
    assert "pulumi" not in names(transitive=False), "pulumi-aws wants it"


def test_what_is_not_served_says_so(host: Host) -> None:
    with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
        host.ask("Pack", language_pb2.PackRequest(), language_pb2.PackResponse)
