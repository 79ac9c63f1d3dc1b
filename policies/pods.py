"""Pods and Ray groups inside Kubernetes resources."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from policies.graph import Graph, Resource
from policies.values import UNKNOWN, Unknown, Value, at, entries, quantity, text

_RAY_SPECS: Final = {
    "RayCluster": ("spec",),
    "RayJob": ("spec", "rayClusterSpec"),
    "RayService": ("spec", "rayClusterConfig"),
}
_POD_SPECS: Final = {
    "Pod": ("spec",),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"),
        ("spec", "template", "spec"),
    ),
}


@dataclass(frozen=True, slots=True)
class RayGroup:
    """The head or one worker group of a Ray cluster; `body` is UNKNOWN when the group is not known yet."""

    resource: Resource
    role: Literal["head", "worker"]
    name: str
    path: str
    body: Value

    @property
    def pod(self) -> Value:
        """Return the pod's spec."""
        return at(self.body, "template", "spec")

    @property
    def container(self) -> Value:
        """Return Ray's container: KubeRay takes the first one."""
        return at(self.pod, "containers", 0)

    def limit(self, resource_name: str) -> Value:
        """Return what Ray's container gets of a resource: its limit, else its request."""
        resources = at(self.container, "resources")
        limit = at(resources, "limits", resource_name)
        return limit if limit is not None else at(resources, "requests", resource_name)

    def asks(self, resource_name: str) -> bool | Unknown:
        """Say whether Ray's container asks for any of a resource."""
        value = self.limit(resource_name)
        return UNKNOWN if value is UNKNOWN else bool(quantity(value))


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod's spec somewhere in a Kubernetes resource; `spec` is UNKNOWN when it is not known yet."""

    resource: Resource
    path: str
    spec: Value

    def containers(self) -> list[Value]:
        """List the containers, those that run before the others included."""
        return entries(at(self.spec, "initContainers")) + entries(at(self.spec, "containers"))


def is_kubernetes(resource: Resource) -> bool:
    """Say whether a resource is an object in the cluster."""
    return resource.type.startswith("kubernetes:")


def kind(resource: Resource) -> str:
    """Return the kind of a Kubernetes resource, the last part of its type token."""
    return resource.type.rsplit(":", 1)[-1]


def ray_groups(resource: Resource) -> list[RayGroup]:
    """List the head and the worker groups of a RayCluster, or of the cluster inside a RayJob or RayService."""
    steps = _RAY_SPECS.get(kind(resource)) if resource.type.startswith("kubernetes:ray.io/") else None
    if steps is None:
        return []
    spec, path = at(resource.props, *steps), ".".join(steps)
    if spec is None:
        return []
    head = RayGroup(resource, "head", "head", f"{path}.headGroupSpec", at(spec, "headGroupSpec"))
    workers = [
        RayGroup(
            resource, "worker", text(at(body, "groupName")) or str(index), f"{path}.workerGroupSpecs[{index}]", body
        )
        for index, body in enumerate(entries(at(spec, "workerGroupSpecs")))
    ]
    return [head, *workers]


def ray_groups_of(graph: Graph) -> Iterator[RayGroup]:
    """List the head and worker groups of all Ray clusters in the stack."""
    return (group for resource in graph.resources for group in ray_groups(resource))


def pods(resource: Resource) -> list[Pod]:
    """List the pod specs that a Kubernetes resource holds."""
    found = [Pod(resource, f"{group.path}.template.spec", group.pod) for group in ray_groups(resource)]
    if not is_kubernetes(resource):
        return found
    if kind(resource) == "RayJob" and at(resource.props, "spec", "submitterPodTemplate") is not None:
        submitter = at(resource.props, "spec", "submitterPodTemplate", "spec")
        found.append(Pod(resource, "spec.submitterPodTemplate.spec", submitter))
    steps = _POD_SPECS.get(kind(resource))
    if steps is not None:
        found.append(Pod(resource, ".".join(steps), at(resource.props, *steps)))
    return found
