"""Render the three charts with this stack's values and say which nodes each workload reaches.

    python -m rehearsal.check_charts                        the upstream charts, from their repositories
    python -m rehearsal.check_charts --charts DIR           charts from a directory or an `oci://` mirror
    python -m rehearsal.check_charts --stand-ins --json     the charts of this repository, for programs

Exit code 0 when each workload reaches its nodes and no others, 1 when one does not, 2 when that could not be found out.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from infra import labels
from infra.instances import instance
from rehearsal.charts import SOURCES as STAND_INS
from rehearsal.documents import as_mapping, as_text
from rehearsal.errors import RehearsalError
from rehearsal.helm import find_helm, render
from rehearsal.scheduling import Manifest, Node, Taint, why_not
from workloads.chart_values import (
    EFA_CHART,
    GPU_TAINT_EFFECT,
    KUBERAY_CHART,
    NVIDIA_CHART,
    ChartRelease,
    ChartSpec,
    releases,
)

GPU_NODE: Final = "gpu"
GPU_NODE_WITHOUT_EFA: Final = "gpu-without-efa"
SYSTEM_NODE: Final = "system"
_WORKLOADS: Final = ("DaemonSet", "Deployment", "StatefulSet", "Job")
_NOWHERE: Final = ("mps-control-daemon",)
"""Ends of names that go nowhere: NVIDIA's chart has one for GPU sharing, which waits for a label never set here."""


PIPE_WIDTH: Final = 140


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Where the pods of one workload may land, against where they belong."""

    chart: str
    workload: str
    reaches: tuple[str, ...]
    expected: tuple[str, ...]
    reasons: dict[str, str]
    """Node that is not reached to the rule that keeps the pod away."""

    @property
    def good(self) -> bool:
        """Tell whether the pods land on all the right nodes and on no others."""
        return set(self.reaches) == set(self.expected)

    @property
    def text(self) -> str:
        """Return the verdict in words."""
        missed = [f"misses {node}: {self.reasons[node]}" for node in self.expected if node not in self.reaches]
        strays = [f"reaches {node}" for node in self.reaches if node not in self.expected]
        return "; ".join(missed + strays) or "ok"


def node_shapes(spec: ChartSpec, *, system_instance_type: str) -> tuple[Node, ...]:
    """Return a GPU node, the same without EFA attached, and a system node, with their labels and taints as deployed."""
    taint = Taint(key=labels.GPU_TAINT, value=labels.GPU_TAINT_VALUE, effect=GPU_TAINT_EFFECT)
    gpu_labels = _kubelet_labels(spec.gpu_instance_type) | labels.gpu_node(efa=spec.efa_interfaces > 0)
    without_efa = {key: value for key, value in gpu_labels.items() if key != labels.EFA}
    system_labels = _kubelet_labels(system_instance_type) | labels.system_node()
    return (
        Node(name=GPU_NODE, labels=gpu_labels, taints=(taint,)),
        Node(name=GPU_NODE_WITHOUT_EFA, labels=without_efa, taints=(taint,)),
        Node(name=SYSTEM_NODE, labels=system_labels),
    )


def expected_nodes(chart: str, spec: ChartSpec) -> tuple[str, ...]:
    """Return the nodes that the pods of a chart belong on."""
    return {
        NVIDIA_CHART: (GPU_NODE, GPU_NODE_WITHOUT_EFA),
        EFA_CHART: (GPU_NODE,) if spec.efa_interfaces else (),
        KUBERAY_CHART: (SYSTEM_NODE,),
    }[chart]


def judge(chart: str, manifests: Sequence[Manifest], nodes: Sequence[Node], expected: Sequence[str]) -> list[Verdict]:
    """Return a verdict for every workload of a chart. Raises RehearsalError when there is no workload at all."""
    verdicts: list[Verdict] = []
    for manifest in manifests:
        kind = manifest.get("kind")
        if kind not in _WORKLOADS:
            continue
        pod = as_mapping(as_mapping(as_mapping(manifest.get("spec")).get("template")).get("spec"))
        reasons = {node.name: why_not(pod, node, daemon_set=kind == "DaemonSet") for node in nodes}
        name = as_text(as_mapping(manifest.get("metadata")).get("name"))
        verdicts.append(
            Verdict(
                chart=chart,
                workload=f"{kind}/{name}",
                reaches=tuple(node for node, reason in reasons.items() if reason is None),
                expected=() if name.endswith(_NOWHERE) else tuple(expected),
                reasons={node: reason for node, reason in reasons.items() if reason is not None},
            )
        )
    if not verdicts:
        raise RehearsalError(
            f"chart {chart}: rendered no {' or '.join(_WORKLOADS[:2])}; expected one; is a value turning it off?",
            exit_code=1,
        )
    return verdicts


def check(helm: Path, spec: ChartSpec, *, system_instance_type: str, charts: Path | str | None) -> list[Verdict]:
    """Render every release of the stack and judge it. `charts` None takes each chart from its upstream repository."""
    nodes = node_shapes(spec, system_instance_type=system_instance_type)
    verdicts: list[Verdict] = []
    for release in releases(spec):
        manifests = _rendered(helm, release, charts)
        verdicts += judge(release.chart, manifests, nodes, expected_nodes(release.chart, spec))
    return verdicts


def _rendered(helm: Path, release: ChartRelease, charts: Path | str | None) -> list[Manifest]:
    return render(
        helm,
        release.chart,
        namespace=release.namespace,
        values=release.values,
        source=release.repository if charts is None else charts,
        version=release.version,
    )


def _kubelet_labels(instance_type: str) -> dict[str, str]:
    return {
        "node.kubernetes.io/instance-type": instance_type,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
    }


def _table(verdicts: Sequence[Verdict], spec: ChartSpec) -> Table:
    table = Table(title=f"{spec.gpu_instance_type}, EFA interfaces a node: {spec.efa_interfaces}", title_justify="left")
    for column in ("chart", "workload", "nodes reached", "verdict"):
        table.add_column(column, overflow="fold")
    for verdict in verdicts:
        colour = "green" if verdict.good else "red"
        reached = ", ".join(verdict.reaches) or "none"
        table.add_row(verdict.chart, verdict.workload, reached, f"[{colour}]{verdict.text}[/{colour}]")
    return table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rehearsal.check_charts", description="Say which nodes each chart reaches."
    )
    parser.add_argument("--instance-type", default="g6.12xlarge", help="GPU instance type (default: %(default)s)")
    parser.add_argument("--efa", type=int, help="EFA interfaces a node (default: all that the type has)")
    parser.add_argument(
        "--system-instance-type", default="m7i.2xlarge", help="system instance type (default: %(default)s)"
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--charts", help="directory or oci:// path that holds the charts (default: the upstream repositories)"
    )
    source.add_argument("--stand-ins", action="store_true", help="the charts of this repository")
    parser.add_argument("--helm", type=Path, help="Helm 3 binary (default: `helm` on PATH)")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    return parser


def _source(charts: str | None, *, stand_ins: bool) -> Path | str | None:
    if stand_ins:
        return STAND_INS
    if charts is None or charts.startswith(("oci://", "http://", "https://")):
        return charts
    directory = Path(charts)
    if not directory.is_dir():
        raise RehearsalError(f"--charts: {charts} is no directory; name one that holds the charts, or an oci:// path")
    return directory


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the check and return the exit code."""
    options = _parser().parse_args(arguments)
    console = Console(stderr=True)
    try:
        facts = instance(options.instance_type)
        instance(options.system_instance_type)
        efa = facts.efa_interfaces if options.efa is None else options.efa
        spec = ChartSpec(gpu_instance_type=facts.name, efa_interfaces=efa)
        charts = _source(options.charts, stand_ins=options.stand_ins)
        helm = find_helm(options.helm)
        with nullcontext() if options.json else console.status("rendering charts"):
            verdicts = check(helm, spec, system_instance_type=options.system_instance_type, charts=charts)
    except RehearsalError as problem:
        print(problem, file=sys.stderr)
        return problem.exit_code
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        print(
            json.dumps(
                [asdict(verdict) | {"good": verdict.good, "verdict": verdict.text} for verdict in verdicts], indent=2
            )
        )
    else:
        # Names in a file or a pipe are for grep: whole, whatever the width of a terminal would be.
        Console(width=None if sys.stdout.isatty() else PIPE_WIDTH).print(_table(verdicts, spec))
    return 0 if all(verdict.good for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
