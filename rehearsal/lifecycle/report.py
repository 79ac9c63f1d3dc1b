"""What a person sees of a rehearsal: times, the job's result, what was real, and what to type next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from rehearsal.documents import as_mapping
from rehearsal.world.record import World

STANDS_IN = (
    "Real here: Pulumi engine and policies, Kubernetes provider, etcd, API server, scheduler, controller manager, KubeRay operator, "
    "Ray, training program. Stand in: AWS and S3 (local API), nodes and containers (kwok), device plugins (they only make devices "
    "allocatable), charts (ours, with KubeRay's own definitions)."
)


def show_result(
    console: Console,
    *,
    times: Mapping[str, float | None],
    outputs: Mapping[str, Any],
    result: Mapping[str, Any] | None,
) -> None:
    """Print how long what took, and what became of the job."""
    table = Table(title="Rehearsal", title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
    for what, seconds in times.items():
        table.add_row(what, "not reached" if seconds is None else f"{seconds:.0f} s")
    table.add_row(f"job {outputs.get('jobName', '')}", str(outputs.get("jobStatus", "no status")))
    for name, value in (result or {}).items():
        if name != "event":
            table.add_row(f"  {name.replace('_', ' ')}", f"{value:.4g}" if isinstance(value, float) else str(value))
    console.print(table)


def show_next(console: Console, world: World, outputs: Mapping[str, Any], *, stack: str) -> None:
    """Print what to type for a look, and how to take everything down."""
    told, logs = as_mapping(outputs.get("commands")), as_mapping(outputs.get("jobLogs"))
    commands = {
        "cluster": f"export KUBECONFIG={world.kubeconfig} PATH={world.kubectl.rpartition('/')[0]}:$PATH",
        "pods": "kubectl get nodes,pods --all-namespaces --output wide",
        "dashboard": str(told.get("dashboard", "")),
        "token": "kubectl --namespace ray-train get secret ray --output jsonpath='{.data.auth_token}' | base64 -d",
        "logs": str(as_mapping(logs.get("driver")).get("command", "")),
        "down": "make rehearse-down" if stack == "rehearsal" else f"make rehearse-down STACK={stack}",
    }
    console.print(STANDS_IN, style="dim")
    console.print("It stays up for a look:")
    for what, command in commands.items():
        if command:
            console.print(f"  {what:10} {command}", soft_wrap=True, highlight=False, markup=False)


def show_causes(console: Console, causes: Sequence[str]) -> None:
    """Print why a stack did not come up, as far as the cluster tells."""
    for cause in causes:
        console.print(f"cause: {cause}", soft_wrap=True, highlight=False, markup=False)
