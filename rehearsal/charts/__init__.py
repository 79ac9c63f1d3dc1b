"""Our own charts with the names, versions and values of the upstream ones, where no chart repository is reached."""

import shutil
from pathlib import Path
from typing import Final

from rehearsal.errors import RehearsalError

CHARTS: Final = ("nvidia-device-plugin", "aws-efa-k8s-device-plugin", "kuberay-operator")
SOURCES: Final = Path(__file__).parent
_KUBERAY: Final = "kuberay-operator"
_REQUIRED_CRDS: Final = ("ray.io_rayclusters.yaml", "ray.io_rayjobs.yaml")


def assemble(destination: Path, crds_dir: Path) -> dict[str, Path]:
    """Copy the charts and the operator's CRDs into `destination`; return each chart's directory by its name.

    The CRDs are the real ones, out of KubeRay's Go module (`rehearsal.toolchain.kuberay_crds()`): the repository keeps
    no copy. A chart that is already there is replaced. Raises RehearsalError when `crds_dir` lacks the RayCluster or RayJob.
    """
    missing = [name for name in _REQUIRED_CRDS if not (crds_dir / name).is_file()]
    if missing:
        raise RehearsalError(
            f"KubeRay definitions: {crds_dir} lacks {', '.join(missing)}; "
            "expected the operator module's config/crd/bases; fetch them with rehearsal.toolchain.kuberay_crds()"
        )
    assembled: dict[str, Path] = {}
    for name in CHARTS:
        chart = destination / name
        if chart.exists():
            shutil.rmtree(chart)
        shutil.copytree(SOURCES / name, chart, ignore=shutil.ignore_patterns("README.md"))
        assembled[name] = chart
    crds = assembled[_KUBERAY] / "crds"
    crds.mkdir()
    for definition in sorted(crds_dir.glob("*.yaml")):
        # Content only: files out of a module cache are read-only, which would keep this directory from being replaced.
        shutil.copyfile(definition, crds / definition.name)
    return assembled
