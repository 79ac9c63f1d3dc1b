"""Fill PULUMI_HOME with the plugins of a rehearsal, where the engine finds them before it would ask a download site."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from rehearsal.engine.state import State
from rehearsal.errors import RehearsalError
from rehearsal.language_host.packages import required_plugins
from rehearsal.toolchain.pulumi import Toolchain

REPOSITORY = Path(__file__).resolve().parents[2]
STAND_INS = ("aws", "eks")


def install_plugins(state: State, toolchain: Toolchain) -> None:
    """Put the stand-ins, the Kubernetes provider and, without an official Pulumi, the language host in place.

    Each provider gets the version that the installed Python package asks for. Raises RehearsalError when a package asks for a
    provider that a rehearsal has not.
    """
    for plugin in required_plugins():
        file = f"pulumi-resource-{plugin.name}"
        directory = _directory(state, f"resource-{plugin.name}-{plugin.version}")
        if plugin.name in STAND_INS:
            _write_launcher(directory / file, "rehearsal.providers", plugin.name, tied=True)
        elif plugin.name == "kubernetes":
            _link(directory / file, toolchain.kubernetes_provider)
        else:
            raise RehearsalError(
                f"provider {plugin.name} {plugin.version}: wanted by an installed package and not part of a rehearsal; "
                f"there are {', '.join((*STAND_INS, 'kubernetes'))}: uninstall that package (`make setup` does)"
            )
    # The version is only the directory's name: the engine takes whichever language host it finds.
    host = _directory(state, "language-python-v3.0.0") / "pulumi-language-python"
    if toolchain.language_host is not None:
        _link(host, toolchain.language_host)
    else:
        _write_launcher(host, "rehearsal.language_host")


def _directory(state: State, name: str) -> Path:
    directory = state.home / "plugins" / name
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _write_launcher(path: Path, module: str, *arguments: str, tied: bool = False) -> None:
    """Write a script that runs a module of this repository with this Python.

    The repository is put on the module path inside the process, not by PYTHONPATH, which the program would inherit.
    With `tied` the process ends when its input does, whose other end the engine holds for as long as it lives.
    """
    lines = ["import runpy, sys", "sys.path.insert(0, sys.argv.pop(1))"]
    if tied:
        lines += ["from rehearsal.language_host.tether import tie", "tie(0)"]
    code = "; ".join([*lines, f'runpy.run_module("{module}", None, "__main__", True)'])
    command = shlex.join([sys.executable, "-c", code, str(REPOSITORY), *arguments])
    script = f'#!/bin/sh\nexec {command} "$@"\n'
    if not path.is_symlink() and path.exists() and path.read_text(encoding="utf-8") == script:
        return
    # Another run may be starting the old one: replace it whole.
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(script, encoding="utf-8")
    partial.chmod(0o755)
    partial.replace(path)


def _link(path: Path, target: Path) -> None:
    if path.is_symlink() and path.readlink() == target:
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.symlink_to(target)
    partial.replace(path)
