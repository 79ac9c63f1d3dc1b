"""eks:index:ManagedNodeGroup: one aws:eks:NodeGroup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from ..sdk_schema import resource_schema
from .child import Child, output_of
from .references import ExistingCluster

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
OWN_TEMPLATE = (
    "kubeletExtraArgs",
    "bootstrapExtraArgs",
    "bottlerocketSettings",
    "nodeadmExtraOptions",
    "enableIMDSv2",
    "userData",
    "amiId",
    "enableEfaSupport",
)
"""Inputs for which the real component writes a launch template of its own."""


class ManagedNodeGroup(pulumi.ComponentResource):
    """Makes the child of an eks.ManagedNodeGroup."""

    state: dict[str, Any]

    def __init__(self, name: str, inputs: Mapping[str, Any], options: pulumi.ResourceOptions | None) -> None:
        refuse(name, inputs)
        super().__init__("eks:index:ManagedNodeGroup", name, dict(inputs), options)
        core = _core(inputs["cluster"])
        cluster = core.apply(lambda found: found["cluster"])
        role: Any = inputs.get("nodeRoleArn")
        if role is None:
            role = output_of(inputs["nodeRole"], "arn")
        given = {key: value for key, value in inputs.items() if key in resource_schema(NODE_GROUP).inputs}
        version = inputs.get("version")
        if version is None and inputs.get("launchTemplate") is None:
            version = cluster.apply(lambda found: output_of(found, "version"))
        sizes = pulumi.Output.from_input(inputs.get("scalingConfig") or {})
        self.node_group = Child(
            NODE_GROUP,
            name,
            {
                **given,
                "version": version,
                "clusterName": inputs.get("clusterName") or cluster.apply(lambda found: output_of(found, "name")),
                "nodeRoleArn": role,
                "scalingConfig": sizes.apply(
                    lambda found: {
                        "desiredSize": found.get("desiredSize", 2),
                        "minSize": found.get("minSize", 1),
                        "maxSize": found.get("maxSize", 2),
                    }
                ),
                # As one output: with one subnet that is not known yet, the list is not known.
                "subnetIds": pulumi.Output.from_input(
                    inputs.get("subnetIds") or core.apply(lambda found: found["subnetIds"])
                ),
            },
            pulumi.ResourceOptions(
                parent=self,
                ignore_changes=["scalingConfig.desiredSize"] if inputs.get("ignoreScalingChanges") else None,
            ),
        )
        self.state = {"nodeGroup": self.node_group, "placementGroupName": ""}
        self.register_outputs(self.state)


def _core(cluster: Any) -> pulumi.Output[Any]:
    """Give the core data of the cluster: of the component, or as it was handed over."""
    if isinstance(cluster, ExistingCluster):
        return cluster.core
    return pulumi.Output.from_input(cluster).apply(
        lambda found: found.core if isinstance(found, ExistingCluster) else found
    )


def refuse(name: str, inputs: Mapping[str, Any]) -> None:
    """Refuse what the real component refuses, and what the stand-in would have to ignore.

    Raises:
        pulumi.RunError: one line that names the input.
    """
    where = f"eks:index:ManagedNodeGroup {name}"
    if inputs.get("nodeRole") is not None and inputs.get("nodeRoleArn") is not None:
        raise pulumi.RunError(
            f"{where}: You cannot specify both nodeRole and nodeRoleArn when creating a managed node group."
        )
    if inputs.get("nodeRole") is None and inputs.get("nodeRoleArn") is None:
        raise pulumi.RunError(f"{where}: An IAM role, or role ARN must be provided to create a managed node group")
    own = [key for key in OWN_TEMPLATE if inputs.get(key) is not None]
    if own and inputs.get("launchTemplate") is not None:
        raise pulumi.RunError(
            f"{where}: If you provide a custom launch template, you cannot provide any of {', '.join(OWN_TEMPLATE)}. "
            "Please include these in the launch template that you are providing."
        )
    for key in (
        *own,
        *(key for key in ("operatingSystem", "gpu", "placementGroupAvailabilityZone") if inputs.get(key)),
    ):
        raise pulumi.RunError(
            f"{where}: {key}: the stand-in writes no launch template of its own; put it into launchTemplate and amiType"
        )
