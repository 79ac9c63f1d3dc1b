"""GPU node groups: the image that they boot and how an update replaces them."""

from collections.abc import Iterator
from typing import Final

from policies import tokens
from policies.graph import Graph, Resource
from policies.node_groups import node_groups
from policies.rules import Finding, ResourceRule, StackRule, not_checked, violation
from policies.values import UNKNOWN, at, number, text

_NVIDIA_AMI: Final = (
    "AL2023_x86_64_NVIDIA",
    "AL2023_ARM_64_NVIDIA",
    "BOTTLEROCKET_x86_64_NVIDIA",
    "BOTTLEROCKET_ARM_64_NVIDIA",
)
"""EKS image types with the NVIDIA driver. Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html"""


def check_ami(graph: Graph) -> Iterator[Finding]:
    """Check that GPU nodes boot an image with the NVIDIA driver."""
    for group in node_groups(graph):
        if group.has_gpus is False:
            continue
        ami = at(group.resource.props, "amiType")
        own_image = group.template is not None and at(group.template.props, "imageId") is not None
        if group.has_gpus is UNKNOWN or ami is UNKNOWN:
            yield not_checked(group.resource, "the instance type or amiType", then="GPU nodes boot an NVIDIA image")
        elif ami not in _NVIDIA_AMI and not (own_image and ami in (None, "CUSTOM")):
            yield violation(
                group.resource,
                f"amiType {text(ami) or 'unset'} on GPU node group {group.resource.name}",
                allowed=f"{_NVIDIA_AMI[0]}, or another NVIDIA type",
                why="without the driver the device plugin finds no libnvidia-ml, and no GPU is allocatable",
                fix=f"set amiType to {_NVIDIA_AMI[0]}, or gpuInstanceType to a type without GPUs",
            )


def check_update(resource: Resource) -> Iterator[Finding]:
    """Check that the number of nodes that an update may take down is one that EKS accepts."""
    if resource.type != tokens.NODE_GROUP:
        return
    for key in ("maxUnavailable", "maxUnavailablePercentage"):
        value = at(resource.props, "updateConfig", key)
        count = number(value)
        if value is UNKNOWN:
            yield not_checked(resource, f"updateConfig.{key}", then="it is 1 to 100")
        elif value is not None and (count is None or not 1 <= count <= 100):
            yield violation(
                resource,
                f"updateConfig.{key} {value} on node group {resource.name}",
                allowed="1 to 100",
                why="EKS refuses the group; 0 would never replace a node",
                fix=f"set updateConfig.{key} to 1",
            )


RULES = (
    StackRule(
        id="gpu-ami",
        what="GPU node groups boot an EKS image with the NVIDIA driver.",
        why="On another image no GPU is ever allocatable, and no error says so.",
        fix="`amiType: AL2023_x86_64_NVIDIA`.",
        check=check_ami,
    ),
    ResourceRule(
        id="node-update",
        what="updateConfig of a node group is within what EKS accepts, 1 to 100.",
        why="EKS refuses other values only once the update has begun.",
        fix="`updateConfig.maxUnavailable: 1`.",
        check=check_update,
    ),
)
