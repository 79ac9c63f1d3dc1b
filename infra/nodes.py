"""What CPU and GPU nodes have in common: their role and the safe part of a launch template."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.tags import Tagger

NODE_POLICIES = ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonEKS_CNI_Policy")
"""What kubelet, image pulls and the VPC CNI need; what a workload needs comes by Pod Identity instead (infra/identity.py)."""

METADATA = aws.ec2.LaunchTemplateMetadataOptionsArgs(
    http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1, instance_metadata_tags="disabled"
)
"""IMDSv2 with one hop: a pod cannot take the node's credentials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRole:
    """The IAM role of a node group, and the permissions without which a node that has it never joins."""

    arn: pulumi.Output[str]
    permissions: Sequence[pulumi.Resource]


def node_role(name: str, *, tag: Tagger, opts: pulumi.ResourceOptions) -> NodeRole:
    """Make the IAM role of a node group; nodes are let into the cluster by EKS itself."""
    role = aws.iam.Role(
        name, assume_role_policy=trust("ec2.amazonaws.com", "sts:AssumeRole"), tags=tag(name), opts=opts
    )
    partition = aws.get_partition_output().partition
    permissions = [
        aws.iam.RolePolicyAttachment(
            f"{name}-{policy}",
            role=role.name,
            policy_arn=pulumi.Output.format("arn:{0}:iam::aws:policy/{1}", partition, policy),
            opts=opts,
        )
        for policy in NODE_POLICIES
    ]
    return NodeRole(arn=role.arn, permissions=permissions)


def trust(service: str, *actions: str) -> str:
    """Return the trust policy by which an AWS service assumes a role."""
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": list(actions)}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def root_volume(size_gib: int, key_arn: pulumi.Input[str]) -> aws.ec2.LaunchTemplateBlockDeviceMappingArgs:
    """Return the encrypted gp3 root volume of an Amazon Linux 2023 node."""
    return aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
        device_name="/dev/xvda",
        ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
            volume_size=size_gib,
            volume_type="gp3",
            encrypted="true",
            kms_key_id=key_arn,
            delete_on_termination="true",
        ),
    )


def tag_specifications(tags: Mapping[str, str]) -> list[aws.ec2.LaunchTemplateTagSpecificationArgs]:
    """Tag what an instance brings into being, so that a bill and a sweep find it."""
    kinds = ("instance", "volume", "network-interface")
    return [aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=dict(tags)) for kind in kinds]


def local_storage_user_data() -> str:
    """Return base64 user data by which nodeadm joins the instance store as RAID0 under containerd and kubelet.

    EKS merges its own part with cluster name and certificates. Source: nodeadm API, `NodeConfig.spec.instance.localStorage`
    (https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/).
    """
    config = {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {"instance": {"localStorage": {"strategy": "RAID0"}}},
    }
    lines = (
        "MIME-Version: 1.0",
        'Content-Type: multipart/mixed; boundary="NODECONFIG"',
        "",
        "--NODECONFIG",
        "Content-Type: application/node.eks.aws",
        "",
        json.dumps(config),  # JSON is YAML
        "--NODECONFIG--",
        "",
    )
    return base64.b64encode("\r\n".join(lines).encode()).decode()
