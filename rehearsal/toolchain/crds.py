"""The custom resource definitions of KubeRay, out of its Go module."""

from __future__ import annotations

import shutil
from pathlib import Path

import versions
from rehearsal.errors import RehearsalError
from rehearsal.toolchain import go as golang
from rehearsal.toolchain.cache import cache_root, ensure_entry
from rehearsal.toolchain.tools import KUBERAY_MODULE


def kuberay_crds() -> Path:
    """Return a directory of YAML files, one custom resource definition of KubeRay each (ray.io_rayclusters.yaml, ...).

    Source: config/crd/bases in the Go module of the operator, at the version that the stack installs. The first call
    downloads the module (Go checks its hash); later ones need neither Go nor network. Raises RehearsalError otherwise.
    """
    return ensure_entry(f"kuberay-crds-{versions.KUBERAY}", _fill)


def _fill(work: Path) -> None:
    go = golang.find_go(cache_root())
    if go is None:
        raise RehearsalError(
            f"KubeRay {versions.KUBERAY} definitions: not in the cache and no `go` on PATH to download them; "
            "install Go 1.26 or newer (https://go.dev/dl/), then run the same command again"
        )
    module = golang.module_directory(go, f"{KUBERAY_MODULE}@v{versions.KUBERAY}", directory=work)
    for definition in sorted((module / "config/crd/bases").glob("*.yaml")):
        # Files of the module cache are read-only, which would keep the cache from being cleaned.
        shutil.copyfile(definition, work / definition.name)
    if not any(work.glob("*.yaml")):
        raise RehearsalError(
            f"Go module {KUBERAY_MODULE}@v{versions.KUBERAY}: no config/crd/bases/*.yaml in it; expected the definitions there"
        )
