"""Which devices a node offers to pods: those whose device plugin runs on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from infra.instances import instance as instance_facts
from rehearsal.nodes.fleet import Instance

GPU = "nvidia.com/gpu"
EFA = "vpc.amazonaws.com/efa"

_PLUGINS = {"k8s-device-plugin": GPU, "aws-efa-k8s-device-plugin": EFA}
"""Last part of the plugin's image repository to the resource that it registers with the kubelet.

Sources: https://github.com/NVIDIA/k8s-device-plugin and https://github.com/aws/eks-charts/tree/master/stable/aws-efa-k8s-device-plugin
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningContainer:
    """A container that runs on a node."""

    node: str
    image: str


def attached(instance: Instance) -> dict[str, int]:
    """Return the devices that the instance has, by resource name."""
    devices = {GPU: instance_facts(instance.instance_type).gpus, EFA: instance.efa_interfaces}
    return {name: count for name, count in devices.items() if count}


def registered(containers: Iterable[RunningContainer]) -> Mapping[str, frozenset[str]]:
    """Return the resources whose plugin runs, by node."""
    found: dict[str, set[str]] = {}
    for container in containers:
        resource = _PLUGINS.get(_repository(container.image))
        if resource is not None:
            found.setdefault(container.node, set()).add(resource)
    return {node: frozenset(resources) for node, resources in found.items()}


def allocatable(devices: Mapping[str, int], plugins: frozenset[str], seen: Iterable[str]) -> dict[str, str]:
    """Return what the kubelet says of extended resources, as quantities.

    A plugin that runs offers every device; one that has gone leaves its resource (`seen` before on the node) at 0, as the
    kubelet does until it restarts; a resource whose plugin never came is not there at all.
    """
    offered = {name: str(count) for name, count in devices.items() if name in plugins}
    return {**{name: "0" for name in seen if name in _PLUGINS.values()}, **offered}


def _repository(image: str) -> str:
    """Return the last part of an image's repository, without tag or digest."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]
