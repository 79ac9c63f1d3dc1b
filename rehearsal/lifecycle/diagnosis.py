"""Why a stack did not come up, from what its cluster says: releases in the way, pods that nobody places, plugins that reach no node."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lightkube.resources.apps_v1 import DaemonSet
from lightkube.resources.core_v1 import Node, Pod

from rehearsal.documents import as_mapping
from rehearsal.kubernetes import Kubernetes, Release, as_document, labels_of
from rehearsal.scheduling import Node as SchedulingNode
from rehearsal.scheduling import Taint, why_not


def diagnose(kubernetes: Kubernetes, *, known_releases: Collection[tuple[str, str]]) -> list[str]:
    """Return one line for each thing that keeps the cluster from being whole, causes before their effects.

    `known_releases` are the Helm releases that the stack's state has, by namespace and name.
    """
    nodes = [_scheduling_node(node) for node in kubernetes.nodes()]
    pods = kubernetes.pods()
    return [
        *_stray_releases(kubernetes.releases(), known_releases),
        *_missing_nodes(nodes),
        *_idle_plugins(kubernetes.daemon_sets(), nodes),
        *_pending(pods),
        *_crashing(pods),
    ]


def _stray_releases(releases: Iterable[Release], known: Collection[tuple[str, str]]) -> list[str]:
    """Return a line for each release whose name an update cannot take: https://github.com/pulumi/pulumi-kubernetes/issues/2054."""
    return [
        f"release {release.namespace}/{release.name}: is in the cluster ({release.status}) and not in the stack's state, left by an "
        f"update that was cut off; run `helm uninstall {release.name} --namespace {release.namespace}`, then the update again"
        for release in releases
        if (release.namespace, release.name) not in known
    ]


def _missing_nodes(nodes: Iterable[SchedulingNode]) -> list[str]:
    return [] if list(nodes) else ["nodes: none has joined; see the node groups' health in the error above"]


def _idle_plugins(daemon_sets: Iterable[DaemonSet], nodes: list[SchedulingNode]) -> list[str]:
    """Return a line for each DaemonSet that Helm calls ready because it wants no pod at all."""
    lines: list[str] = []
    for daemon_set in daemon_sets:
        status, metadata = daemon_set.status, daemon_set.metadata
        if status is None or metadata is None or status.desiredNumberScheduled:
            continue
        pod_spec = as_mapping(as_document(daemon_set.spec.template).get("spec"))
        reasons = {node.name: why_not(pod_spec, node, daemon_set=True) for node in nodes}
        told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items() if reason) or "no node"
        lines.append(
            f"DaemonSet {metadata.namespace}/{metadata.name}: wants no pod on any node, so its devices never become allocatable "
            f"({told}); mend the chart's values, the node labels or the tolerations"
        )
    return lines


def _pending(pods: Iterable[Pod]) -> list[str]:
    """Return a line for each reason why pods are not placed, with the pods that it holds up."""
    held: dict[str, list[str]] = {}
    for pod in pods:
        metadata, status = pod.metadata, pod.status
        if metadata is None or status is None or status.phase != "Pending":
            continue
        for condition in status.conditions or []:
            if condition.type == "PodScheduled" and condition.status == "False":
                held.setdefault(condition.message or condition.reason or "unknown", []).append(
                    f"{metadata.namespace}/{metadata.name}"
                )
    return [f"pods not placed: {', '.join(sorted(names))}: {reason}" for reason, names in held.items()]


def _crashing(pods: Iterable[Pod]) -> list[str]:
    """Return a line for each container that ends again and again."""
    lines: list[str] = []
    for pod in pods:
        metadata, status = pod.metadata, pod.status
        for container in (status.containerStatuses if status else None) or []:
            waiting = container.state.waiting if container.state else None
            if metadata is None or waiting is None or waiting.reason != "CrashLoopBackOff":
                continue
            last = container.lastState.terminated if container.lastState else None
            code = f" with exit code {last.exitCode}" if last else ""
            lines.append(
                f"pod {metadata.namespace}/{metadata.name}: container {container.name} has ended {container.restartCount} times{code}; "
                f"`kubectl logs --namespace {metadata.namespace} {metadata.name}` says why"
            )
    return lines


def _scheduling_node(node: Node) -> SchedulingNode:
    metadata, spec = node.metadata, node.spec
    taints = (spec.taints if spec else None) or []
    return SchedulingNode(
        name=(metadata.name if metadata else None) or "",
        labels=labels_of(metadata),
        taints=tuple(Taint(key=taint.key, value=taint.value or "", effect=taint.effect) for taint in taints),
    )
