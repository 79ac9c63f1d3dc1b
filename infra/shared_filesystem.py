"""FSx for Lustre in the GPU zone, for runs that want a POSIX path under /fsx instead of S3."""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.tags import Tagger

LUSTRE_PORTS = ((988, 988), (1018, 1023))
"""What Lustre clients and servers speak on. Source: https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFilesystemArgs:
    """Size and place of the file system."""

    capacity_gib: int
    vpc_id: pulumi.Input[str]
    subnet_id: pulumi.Input[str]
    node_security_group_id: pulumi.Input[str]
    """Who mounts it: the group of all nodes."""
    tag: Tagger


class SharedFilesystem(pulumi.ComponentResource):
    """A scratch Lustre file system beside the GPU nodes: no traffic between zones, nothing kept when the stack goes."""

    id: pulumi.Output[str]
    dns_name: pulumi.Output[str]
    mount_name: pulumi.Output[str]

    def __init__(self, name: str, args: SharedFilesystemArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("efa-ray-train:infra:SharedFilesystem", name, None, opts)
        child, tags = pulumi.ResourceOptions(parent=self), args.tag(name)
        group = aws.ec2.SecurityGroup(
            name,
            vpc_id=args.vpc_id,
            description="Lustre: servers with each other and with the nodes",
            tags=tags,
            opts=child,
        )
        rules = [
            rule(
                f"{name}-{source}-{first}",
                security_group_id=group.id,
                referenced_security_group_id=peer,
                from_port=first,
                to_port=last,
                ip_protocol="tcp",
                tags=tags,
                opts=child,
            )
            for source, peer in (("self", group.id), ("nodes", args.node_security_group_id))
            for first, last in LUSTRE_PORTS
            for rule in (aws.vpc.SecurityGroupIngressRule, aws.vpc.SecurityGroupEgressRule)
        ]
        filesystem = aws.fsx.LustreFileSystem(
            name,
            deployment_type="SCRATCH_2",
            storage_capacity=args.capacity_gib,
            subnet_ids=args.subnet_id,
            security_group_ids=[group.id],
            data_compression_type="LZ4",
            tags=tags,
            # FSx looks at the rules when it is asked, and refuses a group that does not let Lustre through yet.
            opts=pulumi.ResourceOptions(parent=self, depends_on=rules),
        )
        self.id, self.dns_name, self.mount_name = filesystem.id, filesystem.dns_name, filesystem.mount_name
        self.register_outputs({"id": self.id})
