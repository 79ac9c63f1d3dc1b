"""Managed node groups as the rules see them: with the launch template, subnets and EFA devices that belong to each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from policies import tokens
from policies.graph import Graph, Resource, known_ids
from policies.values import UNKNOWN, Unknown, Value, at, entries, text

_GPU_FAMILY: Final = re.compile(r"^(g|gr|p)\d")
"""Families with NVIDIA GPUs. Source: https://aws.amazon.com/ec2/instance-types/ (accelerated computing)."""


@dataclass(frozen=True)
class NodeGroup:
    """One managed node group and what it draws in."""

    resource: Resource
    graph: Graph

    @cached_property
    def template(self) -> Resource | None:
        """Return the launch template, when it is a resource of this stack."""
        found = self.graph.sources(self.resource, "launchTemplate.id", [tokens.LAUNCH_TEMPLATE])
        return found[0] if len(found) == 1 else None

    @property
    def hidden_template(self) -> bool:
        """Say whether there is a launch template that cannot be read here."""
        return self.template is None and at(self.resource.props, "launchTemplate") is not None

    @cached_property
    def subnets(self) -> list[Resource]:
        """List the subnets, as far as they are resources of this stack."""
        return self.graph.sources(self.resource, "subnetIds", [tokens.SUBNET])

    @cached_property
    def subnet_gap(self) -> str | None:
        """Say why `subnets` may not be the whole truth; None when it is."""
        asked = entries(at(self.resource.props, "subnetIds"))
        if not self.subnets:
            return "subnetIds" if not known_ids(self.resource, "subnetIds") else None
        if UNKNOWN not in asked or at(self.resource.props, "subnetIds") is UNKNOWN:
            return None
        return None if len(asked) == len(self.subnets) else "which of the subnets in subnetIds it takes"

    @cached_property
    def instance_types(self) -> list[Value]:
        """List the instance types that the group may launch; an element is UNKNOWN when it is not known yet."""
        types = entries(at(self.resource.props, "instanceTypes"))
        if self.template is not None:
            types += entries(at(self.template.props, "instanceType"))
        elif self.hidden_template:
            types.append(UNKNOWN)
        return types

    @property
    def has_gpus(self) -> bool | Unknown:
        """Say whether any instance type of the group has NVIDIA GPUs."""
        if any(_GPU_FAMILY.match(type_) for type_ in self.instance_types if isinstance(type_, str)):
            return True
        if self.resource.tag(tokens.TAG_ZONE) is not None:
            return True
        return UNKNOWN if UNKNOWN in self.instance_types else False

    @property
    def efa(self) -> bool | Unknown:
        """Say whether the instances get EFA devices: from the launch template, else from the recorded decision."""
        if self.template is not None:
            return has_efa(self.template)
        recorded = self.resource.tag(tokens.TAG_EFA)
        if recorded is not None:
            return recorded == "true"
        return UNKNOWN if self.hidden_template else False


def node_groups(graph: Graph) -> Iterator[NodeGroup]:
    """List the managed node groups of the stack."""
    return (NodeGroup(resource, graph) for resource in graph.of(tokens.NODE_GROUP))


def has_efa(template: Resource) -> bool | Unknown:
    """Say whether a launch template asks for an EFA device."""
    interfaces = entries(at(template.props, "networkInterfaces"))
    kinds = [at(interface, "interfaceType") for interface in interfaces]
    if any(kind in tokens.EFA_INTERFACES for kind in kinds):
        return True
    if UNKNOWN not in kinds:
        return False
    recorded = template.tag(tokens.TAG_EFA)
    return UNKNOWN if recorded is None else recorded == "true"


def instance_type(template: Resource) -> str | None:
    """Return the instance type that a launch template names."""
    return text(at(template.props, "instanceType"))
