"""The security groups that an eks.Cluster makes unless skipDefaultSecurityGroups is set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from .child import Child, merged_tags

GROUP, RULE = "aws:ec2/securityGroup:SecurityGroup", "aws:ec2/securityGroupRule:SecurityGroupRule"
_ALL: Mapping[str, Any] = {"fromPort": 0, "toPort": 0, "protocol": "-1"}


def cluster_group(name: str, inputs: Mapping[str, Any], options: pulumi.ResourceOptions) -> pulumi.Resource:
    """Make the control plane's group with its way out, or take the one that was given."""
    given = inputs.get("clusterSecurityGroup")
    if isinstance(given, pulumi.Resource):
        return given
    tags = merged_tags(f"{name}-eksClusterSecurityGroup", inputs.get("clusterSecurityGroupTags"), inputs.get("tags"))
    group = Child(
        GROUP,
        f"{name}-eksClusterSecurityGroup",
        {"vpcId": inputs["vpcId"], "revokeRulesOnDelete": True, "tags": tags},
        options,
    )
    Child(
        RULE,
        f"{name}-eksClusterInternetEgressRule",
        {
            **_ALL,
            "description": "Allow internet access.",
            "type": "egress",
            "cidrBlocks": ["0.0.0.0/0"],
            "securityGroupId": group.id,
        },
        options,
    )
    return group


def node_group(
    name: str, inputs: Mapping[str, Any], cluster_side: pulumi.Resource, cluster: Child, options: pulumi.ResourceOptions
) -> tuple[Child, Child]:
    """Make the nodes' group with its five rules; gives the group and the rule that lets nodes reach the API server."""
    if not isinstance(cluster_side, pulumi.CustomResource):
        raise pulumi.RunError(f"eks:index:Cluster {name}: clusterSecurityGroup must be a security group")
    owned = cluster.output("name").apply(lambda found: {f"kubernetes.io/cluster/{found}": "owned"})
    tags = merged_tags(f"{name}-nodeSecurityGroup", owned, inputs.get("nodeSecurityGroupTags"), inputs.get("tags"))
    group = Child(
        GROUP,
        f"{name}-nodeSecurityGroup",
        {"vpcId": inputs["vpcId"], "revokeRulesOnDelete": True, "tags": tags},
        options,
    )

    def rule(suffix: str, description: str, **members: Any) -> Child:
        return Child(RULE, f"{name}-{suffix}", {"description": description, **members}, options)

    rule(
        "eksNodeIngressRule",
        "Allow nodes to communicate with each other",
        **_ALL,
        type="ingress",
        securityGroupId=group.id,
        self=True,
    )
    rule(
        "eksNodeClusterIngressRule",
        "Allow worker Kubelets and pods to receive communication from the cluster control plane",
        type="ingress",
        fromPort=1025,
        toPort=65535,
        protocol="tcp",
        securityGroupId=group.id,
        sourceSecurityGroupId=cluster_side.id,
    )
    rule(
        "eksExtApiServerClusterIngressRule",
        "Allow pods running extension API servers on port 443 to receive communication from cluster control plane",
        type="ingress",
        fromPort=443,
        toPort=443,
        protocol="tcp",
        securityGroupId=group.id,
        sourceSecurityGroupId=cluster_side.id,
    )
    rule(
        "eksNodeInternetEgressRule",
        "Allow internet access.",
        **_ALL,
        type="egress",
        cidrBlocks=["0.0.0.0/0"],
        securityGroupId=group.id,
    )
    ingress = rule(
        "eksClusterIngressRule",
        "Allow pods to communicate with the cluster API Server",
        type="ingress",
        fromPort=443,
        toPort=443,
        protocol="tcp",
        securityGroupId=cluster_side.id,
        sourceSecurityGroupId=group.id,
    )
    return group, ingress
