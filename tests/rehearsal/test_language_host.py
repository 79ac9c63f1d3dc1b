"""The language host as the engine sees it: a process that prints a port and answers over gRPC."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import grpc
import pytest
from google.protobuf import empty_pb2, json_format
from google.protobuf.message import Message

from rehearsal.language_host import RUNNER_VARIABLE
from rehearsal.language_host.protocol import language_pb2, plugin_pb2
from rehearsal.language_host.tether import PRELOAD_VARIABLE

ENGINE_ADDRESS = "127.0.0.1:1"
REPOSITORY = Path(__file__).resolve().parents[2]

# Stands in for the SDK's runner: writes down what it was given, then does what the program file says.
RUNNER = """
import json, os, sys
program = sys.argv[-1]
names = ("PULUMI_CONFIG", "PULUMI_CONFIG_SECRET_KEYS")
seen = {"arguments": sys.argv[1:-1], "cwd": os.getcwd(), "path": sys.path[0], **{name: os.environ.get(name) for name in names}}
with open(os.path.join(program, "seen.json"), "w") as file:
    json.dump(seen, file)
exec(open(os.path.join(program, "__main__.py")).read())
"""


Answer = TypeVar("Answer", bound=Message)


class PluginOutput(Protocol):
    def __iter__(self) -> Iterator[language_pb2.RunPluginResponse]: ...

    def __next__(self) -> language_pb2.RunPluginResponse: ...

    def cancel(self) -> bool: ...


@dataclass(frozen=True)
class Host:
    process: subprocess.Popen[str]
    channel: grpc.Channel
    program: Path

    def method(self, name: str, answer: type[Answer]) -> grpc.UnaryUnaryMultiCallable[Message, Answer]:
        return self.channel.unary_unary(
            f"/pulumirpc.LanguageRuntime/{name}",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=answer.FromString,
        )

    def ask(self, name: str, request: Message, answer: type[Answer]) -> Answer:
        return self.method(name, answer)(request, timeout=20)

    def run(self, code: str) -> language_pb2.RunResponse:
        (self.program / "__main__.py").write_text(code)
        return self.ask("Run", self.request(), language_pb2.RunResponse)

    def run_plugin(self, request: language_pb2.RunPluginRequest) -> PluginOutput:
        method = self.channel.unary_stream(
            "/pulumirpc.LanguageRuntime/RunPlugin",
            request_serializer=language_pb2.RunPluginRequest.SerializeToString,
            response_deserializer=language_pb2.RunPluginResponse.FromString,
        )
        return method(request, timeout=60)

    def request(self) -> language_pb2.RunRequest:
        return language_pb2.RunRequest(
            project="shop",
            stack="dev",
            pwd=str(self.program),
            config={"shop:size": "3"},
            configSecretKeys=["shop:key"],
            dryRun=True,
            parallel=7,
            monitor_address="127.0.0.1:2",
            organization="organization",
            info=self.info(),
        )

    def info(self) -> language_pb2.ProgramInfo:
        return language_pb2.ProgramInfo(
            root_directory=str(self.program), program_directory=str(self.program), entry_point="."
        )


def start_host(runner: Path, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rehearsal.language_host", ENGINE_ADDRESS],
        cwd=REPOSITORY,
        env={**os.environ, RUNNER_VARIABLE: str(runner), **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(params=["fresh", "spare"])
def host(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Host]:
    """A host whose program gets a process of its own, and one whose program takes the place of a spare."""
    runner = tmp_path / "runner"
    runner.write_text(RUNNER)
    program = tmp_path / "program"
    program.mkdir()
    preload = "json.tool no_such_module" if request.param == "spare" else ""
    with start_host(runner, **{PRELOAD_VARIABLE: preload}) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            host = Host(process, channel, program)
            if preload:
                question = language_pb2.GetRequiredPackagesRequest(info=host.info())
                host.ask("GetRequiredPackages", question, language_pb2.GetRequiredPackagesResponse)
            yield host
        process.kill()


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


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


def test_a_spare_has_imported_what_it_was_told_and_is_used_once(tmp_path: Path) -> None:
    (tmp_path / "runner").write_text("import os, sys\nprint(os.getppid(), 'json.tool' in sys.modules, flush=True)\n")
    with start_host(tmp_path / "runner", **{PRELOAD_VARIABLE: "json.tool"}) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            host = Host(process, channel, tmp_path)
            question = language_pb2.GetRequiredPackagesRequest(info=host.info())
            host.ask("GetRequiredPackages", question, language_pb2.GetRequiredPackagesResponse)
            for expected in ("True", "False"):
                host.ask("Run", host.request(), language_pb2.RunResponse)
                assert process.stdout.readline() == f"{process.pid} {expected}\n"
        process.kill()


def test_run_says_how_a_program_failed(host: Host) -> None:
    response = host.run("sys.exit(3)")
    assert (response.error, response.bail) == ("the program ended with exit status 3", False)


def test_a_program_ends_as_python_ends(host: Host) -> None:
    """Its handlers, its threads and its buffered output are not cut off, though the interpreter is not taken apart."""
    code = (
        "import atexit, threading, time\nfile = open(program + '/ending', 'w', buffering=1)\n"
        "atexit.register(lambda: file.write('handler\\n'))\n"
        "threading.Thread(target=lambda: (time.sleep(0.5), file.write('thread\\n'))).start()\n"
    )
    assert host.run(code).error == ""
    assert (host.program / "ending").read_text() == "thread\nhandler\n"
    assert host.run("sys.exit('a reason')").error == "the program ended with exit status 1"
    assert host.run("1 / 0").error == "the program ended with exit status 1"


def test_run_says_which_signal_ended_a_program(host: Host) -> None:
    assert host.run("os.kill(os.getpid(), 9)").error == "the program was ended by signal 9"


def test_run_adds_nothing_when_the_program_has_told_its_failure(host: Host) -> None:
    response = host.run("sys.exit(32)")
    assert (response.error, response.bail) == ("", True)


def test_plugin_output_and_exit_status_are_streamed(host: Host) -> None:
    (host.program / "__main__.py").write_text(
        "import os, sys\n"
        "print(sys.argv[1:], os.environ['COLOUR'], os.getcwd(), flush=True)\n"
        "print('careful', file=sys.stderr)\n"
        "sys.exit(7)\n"
    )
    request = language_pb2.RunPluginRequest(
        pwd=str(host.program.parent), args=["a", "b"], env=["COLOUR=blue=green"], kind="resource", info=host.info()
    )
    messages = list(host.run_plugin(request))
    out = b"".join(message.stdout for message in messages).decode()
    assert out == f"['a', 'b'] blue=green {host.program.parent}\n"
    assert b"".join(message.stderr for message in messages) == b"careful\n"
    assert messages[-1].exitcode == 7


def test_cancelling_a_plugin_ends_its_process(host: Host) -> None:
    (host.program / "__main__.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    request = language_pb2.RunPluginRequest(pwd=str(host.program), kind="resource", info=host.info())
    stream = host.run_plugin(request)
    pid = int(next(stream).stdout)
    assert alive(pid)
    stream.cancel()
    wait_until(lambda: not alive(pid))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")
@pytest.mark.parametrize("how", ["killed", "interrupted", "engine gone"])
def test_a_program_never_outlives_the_host(host: Host, how: str) -> None:
    (host.program / "__main__.py").write_text(
        "import time\nopen(program + '/pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    # Held in a variable: a call that nobody holds is cancelled.
    running = host.method("Run", language_pb2.RunResponse).future(host.request())
    wait_until(lambda: (host.program / "pid").exists() and (host.program / "pid").read_text() != "")
    pid = int((host.program / "pid").read_text())
    assert alive(pid)
    if how == "killed":
        host.process.kill()
    elif how == "interrupted":
        host.process.send_signal(signal.SIGINT)
    else:
        assert host.process.stdin is not None
        host.process.stdin.close()
    host.process.wait(10)
    wait_until(lambda: not alive(pid))
    wait_until(running.done)


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


def test_a_missing_runner_is_one_line(tmp_path: Path) -> None:
    with start_host(tmp_path / "absent") as process:
        out, err = process.communicate(timeout=20)
    assert process.returncode == 2
    assert out == ""
    assert err.count("\n") == 1
    assert RUNNER_VARIABLE in err
    assert "make preview" in err


def test_the_host_does_not_load_the_whole_sdk() -> None:
    code = "import sys, rehearsal.language_host.service; print('pulumi.runtime' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"
