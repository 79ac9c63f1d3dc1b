"""Keep the Node objects as the instances are: registered, labelled, with the devices whose plugins run, and gone with them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from lightkube.models.core_v1 import Taint
from lightkube.resources.core_v1 import Node

from rehearsal.containers.pods import PodView
from rehearsal.kubernetes import Kubernetes, allocatable_of, as_document, labels_of
from rehearsal.nodes.devices import RunningContainer, allocatable, attached, registered
from rehearsal.nodes.fleet import Instance
from rehearsal.nodes.node import node_object, node_status

_LOG = logging.getLogger(__name__)


class Registrar:
    """Registers instances as nodes. Call `sync` again and again."""

    def __init__(self, kubernetes: Kubernetes) -> None:
        self._kubernetes = kubernetes
        self._given: dict[str, Node] = {}
        """Labels and taints that were set last, by node: what a node group drops is removed, what others set stays."""

    def sync(self, instances: Sequence[Instance], pods: Iterable[PodView]) -> None:
        """Bring the cluster's nodes in line with `instances`, and their devices with the plugins among `pods`."""
        nodes = {node.metadata.name or "": node for node in self._kubernetes.nodes() if node.metadata is not None}
        wanted = {instance.node_name: instance for instance in instances}
        for name in nodes.keys() - wanted.keys():
            self._remove(name)
        plugins = registered(
            RunningContainer(node=pod.node, image=container.image or "")
            for pod in pods
            if pod.phase == "Running" and not pod.deleting
            for container in pod.spec.containers
        )
        for name, instance in wanted.items():
            if name not in nodes:
                self._register(instance)
            else:
                self._update(instance, nodes[name], plugins.get(name, frozenset()))

    def _register(self, instance: Instance) -> None:
        node = node_object(instance)
        self._kubernetes.create_node(node)
        self._kubernetes.patch_node_status(instance.node_name, as_document(node_status(instance)))
        self._given[instance.node_name] = node
        _LOG.info("node %s registered (%s, %s)", instance.node_name, instance.instance_type, instance.zone)

    def _remove(self, name: str) -> None:
        self._kubernetes.delete_node(name)
        self._given.pop(name, None)
        _LOG.info("node %s removed: its instance is gone", name)

    def _update(self, instance: Instance, node: Node, plugins: frozenset[str]) -> None:
        present = allocatable_of(node)
        devices = allocatable(attached(instance), plugins, present)
        if any(present.get(name) != quantity for name, quantity in devices.items()):
            capacity = {name: quantity for name, quantity in devices.items() if quantity != "0"}
            self._kubernetes.patch_node_status(instance.node_name, {"capacity": capacity, "allocatable": devices})
        self._follow_group(node_object(instance), node)

    def _follow_group(self, wanted: Node, node: Node) -> None:
        """Change labels and taints in place when those of the node group have changed, as EKS does."""
        name = (node.metadata.name if node.metadata else None) or ""
        before = self._given.setdefault(name, wanted)
        old, new = labels_of(before.metadata), labels_of(wanted.metadata)
        old_taints, new_taints = _taints(before), _taints(wanted)
        if (old, old_taints) == (new, new_taints):
            return
        others = [taint for taint in _taints(node) if taint not in old_taints and taint not in new_taints]
        self._kubernetes.patch_node(
            name,
            {
                "metadata": {"labels": {**dict.fromkeys(old.keys() - new.keys()), **new}},
                "spec": {"taints": [as_document(taint) for taint in [*others, *new_taints]]},
            },
        )
        self._given[name] = wanted


def _taints(node: Node) -> list[Taint]:
    return (node.spec.taints if node.spec else None) or []
