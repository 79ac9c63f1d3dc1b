"""The LanguageRuntime service of Pulumi's protocol, as far as an engine that previews and deploys asks for it.

Source of the protocol: proto/pulumi/language.proto in pulumi/pulumi. What is left out (generating code, packing
packages, templates) answers UNIMPLEMENTED, as the base class does.
"""

# ruff: noqa: N802, ARG002 -- the protocol gives the methods their names and arguments

from __future__ import annotations

import json
import os
import platform
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import grpc
from google.protobuf import empty_pb2

from rehearsal.language_host.children import Children
from rehearsal.language_host.packages import installed_distributions, required_plugins
from rehearsal.language_host.protocol import language_pb2, language_pb2_grpc, plugin_pb2

_ALREADY_TOLD = 32
"""Exit status with which the SDK's runner says that it has told the engine what went wrong."""


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """Serve one engine: say what the program needs, run it, run policy packs and plugins written in Python."""

    def __init__(self, *, engine_address: str, program_runner: Path, version: str, children: Children) -> None:
        self._engine_address = engine_address
        self._program_runner = program_runner
        self._version = version
        self._children = children

    def Handshake(
        self, request: language_pb2.LanguageHandshakeRequest, context: grpc.ServicerContext
    ) -> language_pb2.LanguageHandshakeResponse:
        """Take the engine's address from the engine that attaches to a running host."""
        self._engine_address = request.engine_address or self._engine_address
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        """Return the version of the Pulumi SDK in use."""
        return plugin_pb2.PluginInfo(version=self._version)

    def About(self, request: language_pb2.AboutRequest, context: grpc.ServicerContext) -> language_pb2.AboutResponse:
        """Return the Python that runs programs."""
        return language_pb2.AboutResponse(executable=sys.executable, version=platform.python_version())

    def GetRequiredPackages(
        self, request: language_pb2.GetRequiredPackagesRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetRequiredPackagesResponse:
        """Return the providers of the installed Pulumi packages, so that the engine misses one before the program runs."""
        # The first question about a program that is going to run.
        self._children.prepare()
        return language_pb2.GetRequiredPackagesResponse(
            packages=[
                plugin_pb2.PackageDependency(name=p.name, kind="resource", version=p.version, server=p.server)
                for p in required_plugins()
            ]
        )

    def GetRequiredPlugins(
        self, request: language_pb2.GetRequiredPluginsRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetRequiredPluginsResponse:
        """Return the same to engines that know only the older question."""
        return language_pb2.GetRequiredPluginsResponse(
            plugins=[
                plugin_pb2.PluginDependency(name=p.name, kind="resource", version=p.version, server=p.server)
                for p in required_plugins()
            ]
        )

    def GetProgramDependencies(
        self, request: language_pb2.GetProgramDependenciesRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetProgramDependenciesResponse:
        """Return the installed distributions."""
        found = installed_distributions(transitive=request.transitiveDependencies)
        return language_pb2.GetProgramDependenciesResponse(
            dependencies=[language_pb2.DependencyInfo(name=name, version=version) for name, version in found]
        )

    def RuntimeOptionsPrompts(
        self, request: language_pb2.RuntimeOptionsRequest, context: grpc.ServicerContext
    ) -> language_pb2.RuntimeOptionsResponse:
        """Return no questions: the Python is the one of this checkout."""
        return language_pb2.RuntimeOptionsResponse()

    def InstallDependencies(
        self, request: language_pb2.InstallDependenciesRequest, context: grpc.ServicerContext
    ) -> Iterator[language_pb2.InstallDependenciesResponse]:
        """Say that nothing is installed here: `make setup` has done it from the lock file."""
        yield language_pb2.InstallDependenciesResponse(stdout=b"dependencies come from uv.lock by `make setup`\n")

    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        """End every program that runs."""
        self._children.end_all()
        return empty_pb2.Empty()

    def Run(self, request: language_pb2.RunRequest, context: grpc.ServicerContext) -> language_pb2.RunResponse:
        """Run a Pulumi program to its end and return how it ended."""
        program_directory = request.info.program_directory or request.pwd
        entry_point = request.info.entry_point or "."
        target = [
            str(self._program_runner),
            f"--project={request.project}",
            f"--stack={request.stack}",
            f"--pwd={request.pwd}",
            f"--monitor={request.monitor_address}",
            f"--engine={self._engine_address}",
            f"--dry_run={str(request.dryRun).lower()}",
            f"--parallel={request.parallel}",
            f"--organization={request.organization}",
            f"--root_directory={request.info.root_directory}",
            str(Path(program_directory) / entry_point),
            *request.args,
        ]
        environment = {
            **os.environ,
            "PULUMI_CONFIG": json.dumps(dict(request.config)),
            "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
        }
        child = self._children.start(target, cwd=request.pwd, env=environment)
        if not context.add_callback(lambda: self._children.end(child)):
            self._children.end(child)
        status = self._children.wait(child)
        if status == 0:
            return language_pb2.RunResponse()
        if status == _ALREADY_TOLD:
            return language_pb2.RunResponse(bail=True)
        how = f"was ended by signal {-status}" if status < 0 else f"ended with exit status {status}"
        return language_pb2.RunResponse(error=f"the program {how}")

    def RunPlugin(
        self, request: language_pb2.RunPluginRequest, context: grpc.ServicerContext
    ) -> Iterator[language_pb2.RunPluginResponse]:
        """Run a policy pack or a plugin written in Python and stream what it prints, then its exit status."""
        program = str(Path(request.info.program_directory) / (request.info.entry_point or "."))
        is_pack = request.kind == "analyzer"
        target = ["-m", "pulumi.policy", *request.args, program] if is_pack else [program, *request.args]
        environment = dict(pair.split("=", 1) for pair in request.env if "=" in pair) or dict(os.environ)
        child = self._children.start(target, cwd=request.pwd, env=environment, piped=True)
        if not context.add_callback(lambda: self._children.end(child)):
            self._children.end(child)
        yield from _output(child)
        yield language_pb2.RunPluginResponse(exitcode=self._children.wait(child))


def _output(child: subprocess.Popen[bytes]) -> Iterator[language_pb2.RunPluginResponse]:
    """Yield what a child prints as it comes, until both of its streams have ended."""
    chunks: queue.SimpleQueue[language_pb2.RunPluginResponse | None] = queue.SimpleQueue()

    def forward(stream: IO[bytes] | None, *, error: bool) -> None:
        while stream is not None and (chunk := os.read(stream.fileno(), 65536)):
            chunks.put(
                language_pb2.RunPluginResponse(stderr=chunk) if error else language_pb2.RunPluginResponse(stdout=chunk)
            )
        chunks.put(None)

    open_streams = 2
    threading.Thread(target=forward, args=(child.stdout,), kwargs={"error": False}, daemon=True).start()
    threading.Thread(target=forward, args=(child.stderr,), kwargs={"error": True}, daemon=True).start()
    while open_streams:
        chunk = chunks.get()
        if chunk is None:
            open_streams -= 1
        else:
            yield chunk
