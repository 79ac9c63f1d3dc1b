"""A language host as a process, asked as the engine asks it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import grpc
from google.protobuf.message import Message

from rehearsal.language_host import RUNNER_VARIABLE
from rehearsal.language_host.protocol import language_pb2
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


@contextmanager
def open_host(directory: Path, preload: str = "") -> Generator[Host]:
    """Serve the program in `directory`/program; with `preload` a spare waits for it."""
    runner = directory / "runner"
    if not runner.exists():
        runner.write_text(RUNNER)
    program = directory / "program"
    program.mkdir()
    with start_host(runner, **{PRELOAD_VARIABLE: preload}) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                host = Host(process, channel, program)
                if preload:
                    question = language_pb2.GetRequiredPackagesRequest(info=host.info())
                    host.ask("GetRequiredPackages", question, language_pb2.GetRequiredPackagesResponse)
                yield host
        finally:
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
