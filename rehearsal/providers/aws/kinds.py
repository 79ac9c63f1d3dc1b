"""The resource types that the stand-in has: token, and where its Kind is. A module is imported when its type is first used."""

from __future__ import annotations

import difflib
from functools import cache
from importlib import import_module

from .kind import Kind

KINDS = {
    "aws:cloudwatch/logGroup:LogGroup": "storage_and_logs.LOG_GROUP",
    "aws:ec2/capacityReservation:CapacityReservation": "ec2_compute.CAPACITY_RESERVATION",
    "aws:ec2/eip:Eip": "ec2_network.EIP",
    "aws:ec2/internetGateway:InternetGateway": "ec2_network.INTERNET_GATEWAY",
    "aws:ec2/launchTemplate:LaunchTemplate": "ec2_compute.LAUNCH_TEMPLATE",
    "aws:ec2/natGateway:NatGateway": "ec2_network.NAT_GATEWAY",
    "aws:ec2/placementGroup:PlacementGroup": "ec2_compute.PLACEMENT_GROUP",
    "aws:ec2/route:Route": "ec2_routing.ROUTE",
    "aws:ec2/routeTable:RouteTable": "ec2_routing.ROUTE_TABLE",
    "aws:ec2/routeTableAssociation:RouteTableAssociation": "ec2_routing.ROUTE_TABLE_ASSOCIATION",
    "aws:ec2/securityGroup:SecurityGroup": "ec2_security.SECURITY_GROUP",
    "aws:ec2/securityGroupRule:SecurityGroupRule": "ec2_security.OLD_RULE",
    "aws:ec2/subnet:Subnet": "ec2_network.SUBNET",
    "aws:ec2/vpc:Vpc": "ec2_network.VPC",
    "aws:ec2/vpcEndpoint:VpcEndpoint": "ec2_routing.VPC_ENDPOINT",
    "aws:eks/accessEntry:AccessEntry": "eks_access.ACCESS_ENTRY",
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": "eks_access.ACCESS_POLICY_ASSOCIATION",
    "aws:eks/addon:Addon": "eks_cluster.ADDON",
    "aws:eks/cluster:Cluster": "eks_cluster.CLUSTER",
    "aws:eks/nodeGroup:NodeGroup": "eks_nodes.NODE_GROUP",
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": "eks_access.POD_IDENTITY_ASSOCIATION",
    "aws:fsx/lustreFileSystem:LustreFileSystem": "storage_and_logs.LUSTRE",
    "aws:iam/role:Role": "iam.ROLE",
    "aws:iam/rolePolicy:RolePolicy": "iam.ROLE_POLICY",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": "iam.ROLE_POLICY_ATTACHMENT",
    "aws:kms/alias:Alias": "kms.ALIAS",
    "aws:kms/key:Key": "kms.KEY",
    "aws:s3/bucket:Bucket": "s3.BUCKET",
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": "s3_settings.BUCKET_LIFECYCLE",
    "aws:s3/bucketObjectv2:BucketObjectv2": "s3.BUCKET_OBJECT",
    "aws:s3/bucketOwnershipControls:BucketOwnershipControls": "s3_settings.BUCKET_OWNERSHIP_CONTROLS",
    "aws:s3/bucketPolicy:BucketPolicy": "s3_settings.BUCKET_POLICY",
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": "s3_settings.BUCKET_PUBLIC_ACCESS_BLOCK",
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": "s3_settings.BUCKET_ENCRYPTION",
    "aws:s3/bucketVersioning:BucketVersioning": "s3_settings.BUCKET_VERSIONING",
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": "ec2_security.EGRESS_RULE",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": "ec2_security.INGRESS_RULE",
}


@cache
def kind_of(token: str) -> Kind:
    """Give the Kind of a resource type.

    Raises:
        LookupError: the stand-in has no such type; the text names the closest ones.
    """
    where = KINDS.get(token)
    if where is None:
        close = difflib.get_close_matches(token, KINDS, n=3)
        hint = f"; the closest it has: {', '.join(close)}" if close else ""
        raise LookupError(
            f"the aws stand-in of the rehearsal has no resource type {token}{hint}. Add a Kind to rehearsal/providers/aws, "
            "or use a type that kinds.py lists"
        )
    module, _, name = where.partition(".")
    found: object = getattr(import_module(f".{module}", __package__), name)
    if not isinstance(found, Kind):
        raise TypeError(f"{where} is no Kind")
    return found
