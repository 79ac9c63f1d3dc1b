"""What a pod is to the rehearsal, and the fields of it that are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from lightkube.models.core_v1 import Container, PodSpec
from lightkube.resources.core_v1 import Pod

from rehearsal.kubernetes import annotations_of, labels_of

OPERATOR_LABEL = "app.kubernetes.io/name"
OPERATOR_NAME = "kuberay-operator"
NODE_TYPE = "ray.io/node-type"
CLUSTER = "ray.io/cluster"


class Role(Enum):
    """Which program the main container of a pod is, for the pods that run for real."""

    OPERATOR = "operator"
    RAY_HEAD = "head"
    RAY_WORKER = "worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """A pod as the API server has it."""

    namespace: str
    name: str
    uid: str
    created: float
    """Seconds since the epoch."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    node: str
    """The node that it is bound to, empty while it is Pending for want of one."""
    phase: str
    deleting: bool
    spec: PodSpec

    @property
    def key(self) -> str:
        """Return NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"

    @property
    def role(self) -> Role | None:
        """Return what the pod runs, None when it only looks as if it ran."""
        if self.labels.get(OPERATOR_LABEL) == OPERATOR_NAME:
            return Role.OPERATOR
        kinds = {Role.RAY_HEAD.value: Role.RAY_HEAD, Role.RAY_WORKER.value: Role.RAY_WORKER}
        return kinds.get(self.labels.get(NODE_TYPE, ""))

    @property
    def main(self) -> Container:
        """Return the container whose program is run: the first, as KubeRay and the operator's chart have it."""
        return self.spec.containers[0]

    @property
    def ray_cluster(self) -> str:
        """Return NAMESPACE/NAME of the RayCluster that a Ray pod belongs to."""
        return f"{self.namespace}/{self.labels[CLUSTER]}"


def views(pods: Iterable[Pod]) -> list[PodView]:
    """Return the pods, oldest first, then by name."""
    return sorted((view(pod) for pod in pods), key=lambda pod: (pod.created, pod.name))


def view(pod: Pod) -> PodView:
    """Return the fields that are read of a pod that the API server gave. Raises ValueError for one that it can not have given."""
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    if metadata is None or spec is None or not metadata.name or not metadata.uid:
        raise ValueError(f"pod {pod}: found no name, uid or spec; the API server gives all of them")
    created = metadata.creationTimestamp
    return PodView(
        namespace=metadata.namespace or "",
        name=metadata.name,
        uid=metadata.uid,
        created=created.timestamp() if created else 0.0,
        labels=labels_of(metadata),
        annotations=annotations_of(metadata),
        node=spec.nodeName or "",
        phase=(status.phase if status else None) or "Pending",
        deleting=metadata.deletionTimestamp is not None,
        spec=spec,
    )
