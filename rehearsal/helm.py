"""Render a chart with Helm."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

import yaml

from rehearsal.documents import as_mapping
from rehearsal.errors import RehearsalError
from rehearsal.toolchain.build import build_tool
from rehearsal.toolchain.progress import Progress
from rehearsal.toolchain.tools import HELM

HELM_VARIABLE: Final = "EFA_RAY_TRAIN_HELM"
TIMEOUT_SECONDS: Final = 120


def find_helm(chosen: Path | None = None) -> Path:
    """Return `chosen`, else $EFA_RAY_TRAIN_HELM, else `helm` on PATH, else the cached build, built now if need be.

    Raises RehearsalError when the chosen one does not run, or when there is neither Helm nor Go.
    """
    named = chosen or (Path(value) if (value := os.environ.get(HELM_VARIABLE)) else None)
    if named is not None:
        if os.access(named, os.X_OK) and named.is_file():
            return named
        raise RehearsalError(
            f"helm: {named} is no program that can be run; name Helm 3's binary with --helm or {HELM_VARIABLE}"
        )
    found = shutil.which("helm")
    if found is not None:
        return Path(found)
    with Progress(total=1) as progress:
        return build_tool(HELM, progress) / "helm"


def render(
    helm: Path,
    chart: str,
    *,
    namespace: str,
    values: Mapping[str, object],
    source: Path | str,
    version: str,
) -> list[Mapping[str, object]]:
    """Return the objects of a chart, its `crds/` left out.

    `source` is a directory that holds the chart (unpacked or as NAME-VERSION.tgz), an `oci://` registry path above it,
    or an HTTP repository. Raises RehearsalError with Helm's own words when the chart is not there or does not take the values.
    """
    with tempfile.TemporaryDirectory(prefix="efa-ray-train-helm-") as scratch:
        # JSON is YAML to Helm.
        values_file = Path(scratch) / "values.json"
        values_file.write_text(json.dumps(values))
        # A home of its own: no repository or plugin of the user's takes part.
        environment = os.environ | {f"HELM_{kind}_HOME": scratch for kind in ("CACHE", "CONFIG", "DATA")}
        command = [str(helm), "template", chart, *_locate(chart, source, version)]
        command += ["--namespace", namespace, "--values", str(values_file)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, env=environment, timeout=TIMEOUT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise RehearsalError(
                f"chart {chart}: no answer from {source} in {TIMEOUT_SECONDS} s; name a reachable source with --charts"
            ) from error
        if done.returncode != 0:
            raise RehearsalError(f"chart {chart} {version} from {source}: helm says: {_one_line(done.stderr)}")
        documents = cast(list[object], list(yaml.safe_load_all(done.stdout)))
        return [as_mapping(document) for document in documents if document is not None]


def _locate(chart: str, source: Path | str, version: str) -> list[str]:
    if isinstance(source, str):
        if source.startswith("oci://"):
            return [f"{source.rstrip('/')}/{chart}", "--version", version]
        return [chart, "--repo", source, "--version", version]
    places = [source / chart, source / f"{chart}-{version}.tgz"]
    for place in places:
        if place.exists():
            return [str(place)]
    raise RehearsalError(
        f"chart {chart}: neither {places[0].name}/ nor {places[1].name} in {source}; "
        "name the directory that holds the charts"
    )


def _one_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("WARNING")]
    return "; ".join(line.removeprefix("Error: ") for line in lines) or "nothing"
