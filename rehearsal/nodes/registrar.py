"""Keep the Node objects as the instances are: registered, labelled, with the devices whose plugins run, and gone with them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

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
        self._labels: dict[str, Mapping[str, str]] = {}
        """Labels that were set last, by node: what a node group drops is removed, what others set stays."""

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
        self._labels[instance.node_name] = labels_of(node.metadata)
        _LOG.info("node %s registered (%s, %s)", instance.node_name, instance.instance_type, instance.zone)

    def _remove(self, name: str) -> None:
        self._kubernetes.delete_node(name)
        self._labels.pop(name, None)
        _LOG.info("node %s removed: its instance is gone", name)

    def _update(self, instance: Instance, node: Node, plugins: frozenset[str]) -> None:
        present = allocatable_of(node)
        devices = allocatable(attached(instance), plugins, present)
        if any(present.get(name) != quantity for name, quantity in devices.items()):
            capacity = {name: quantity for name, quantity in devices.items() if quantity != "0"}
            self._kubernetes.patch_node_status(instance.node_name, {"capacity": capacity, "allocatable": devices})
        labels = labels_of(node_object(instance).metadata)
        before = self._labels.setdefault(instance.node_name, labels)
        if before != labels:
            # EKS changes the labels of a group's nodes in place.
            changes = {**dict.fromkeys(before.keys() - labels.keys()), **labels}
            self._kubernetes.patch_node(instance.node_name, {"metadata": {"labels": changes}})
            self._labels[instance.node_name] = labels
