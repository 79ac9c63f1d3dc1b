"""The programs of a local cluster: official ones where they are installed, else builds of their Go modules in a cache."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rehearsal.toolchain.build import build_tool, cached_tool
from rehearsal.toolchain.progress import Progress
from rehearsal.toolchain.tools import KUBERNETES, KWOK, Tool

_KUBERNETES_NAMES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
_TIMEOUT_S = 20
_VERSION = re.compile(r"v(\d+\.\d+)\.\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The programs that one cluster runs, and the command line for those who look at it."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    kubectl: Path
    kwok: Path


def find_programs() -> Programs:
    """Return the programs of a cluster, built now if they are not there yet, with progress on stderr.

    The Kubernetes programs and etcd are the ones on PATH when all of them are there and those of Kubernetes have the minor
    version that the stack rehearses (KUBERNETES in rehearsal/toolchain/tools.py); otherwise all of them are builds, so
    that no two are of different versions. The same goes for kwok. Raises RehearsalError as `build_tool` does.
    """
    installed = _installed_kubernetes()
    kwok = _installed("kwok", KWOK)
    missing = [tool for tool, found in ((KUBERNETES, installed), (KWOK, kwok)) if not found and not cached_tool(tool)]
    with Progress(total=len(missing)) as progress:
        places = installed or dict.fromkeys(KUBERNETES.binaries, build_tool(KUBERNETES, progress))
        kwok = kwok or build_tool(KWOK, progress)
    return Programs(
        etcd=places["etcd"] / "etcd",
        kube_apiserver=places["kube-apiserver"] / "kube-apiserver",
        kube_controller_manager=places["kube-controller-manager"] / "kube-controller-manager",
        kube_scheduler=places["kube-scheduler"] / "kube-scheduler",
        kubectl=places["kubectl"] / "kubectl",
        kwok=kwok / "kwok",
    )


def tools_to_build() -> list[Tool]:
    """Return the tools that no installation makes unnecessary, whether built already or not."""
    kwok = _installed("kwok", KWOK)
    return [tool for tool, found in ((KUBERNETES, _installed_kubernetes()), (KWOK, kwok)) if not found]


def _installed_kubernetes() -> dict[str, Path] | None:
    """Return the directory of each program, None when one of them is missing or of another version."""
    etcd = shutil.which("etcd")
    found = {name: _installed(name, KUBERNETES) for name in _KUBERNETES_NAMES} if etcd is not None else {}
    places = {name: place for name, place in found.items() if place is not None}
    if etcd is None or len(places) < len(_KUBERNETES_NAMES):
        return None
    return places | {"etcd": Path(etcd).parent}


def _installed(name: str, tool: Tool) -> Path | None:
    program = shutil.which(name)
    wanted = ".".join(tool.version.split(".")[:2])
    return Path(program).parent if program is not None and _minor_version(program, name) == wanted else None


def _minor_version(program: str, name: str) -> str | None:
    arguments = ["version", "--client"] if name == "kubectl" else ["--version"]
    try:
        answer = subprocess.run(
            [program, *arguments], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        # Something of that name that does not run is as good as none: it is built then.
        return None
    match = _VERSION.search(answer.stdout)
    return match.group(1) if match else None
