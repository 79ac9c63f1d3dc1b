"""The KubeRay operator's binary."""

from __future__ import annotations

from pathlib import Path

from rehearsal.toolchain.build import build_tool
from rehearsal.toolchain.progress import Progress
from rehearsal.toolchain.tools import KUBERAY_OPERATOR


def find_operator() -> Path:
    """Return the operator, built now from its Go module if it is not in the cache yet, with progress on stderr.

    One on PATH is not taken: it does not say its version. Raises RehearsalError as `build_tool` does.
    """
    with Progress(total=1) as progress:
        return build_tool(KUBERAY_OPERATOR, progress) / "ray-operator"
