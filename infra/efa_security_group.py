"""The security group by which EFA devices reach each other, and nothing else does."""

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws


def efa_security_group(
    name: str, *, vpc_id: pulumi.Input[str], tags: Mapping[str, str], opts: pulumi.ResourceOptions
) -> aws.ec2.SecurityGroup:
    """Make a group that admits all traffic from itself and to itself, by its own id.

    Both rules have to name the group: SRD traffic is not IP, so an egress rule to 0.0.0.0/0 leaves peers "reachable by EFA device but
    handshake failed" (libfabric error 4126). Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html, step 1.
    """
    group = aws.ec2.SecurityGroup(
        name, vpc_id=vpc_id, description="EFA: all traffic between members of this group", tags=dict(tags), opts=opts
    )
    for rule in (aws.vpc.SecurityGroupIngressRule, aws.vpc.SecurityGroupEgressRule):
        rule(
            name,
            security_group_id=group.id,
            ip_protocol="-1",
            referenced_security_group_id=group.id,
            tags=dict(tags),
            opts=opts,
        )
    return group
