"""What is left in the local AWS and the local cluster: everything that a stack can have made, whoever made it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rehearsal.aws_client import aws_client

_TIMEOUT_S = 30
_OPEN_INSTANCE_STATES = ["pending", "running", "stopping", "stopped"]


def leftovers(endpoint: str, region: str) -> dict[str, list[str]]:
    """Return what the AWS API at `endpoint` still has, names or ids by kind; empty when there is nothing.

    Kept out is what an account has from the start (default VPC, its gateway, security groups and network list) and a KMS key that waits
    for its deletion, which bills nothing.
    """

    def client(service: str) -> Any:
        return aws_client(endpoint, region, service, read_timeout=_TIMEOUT_S)

    ec2, kms = client("ec2"), client("kms")
    kinds: dict[str, Callable[[], list[str]]] = {
        "VPC": lambda: [vpc["VpcId"] for vpc in ec2.describe_vpcs()["Vpcs"] if not vpc["IsDefault"]],
        "instance": lambda: [
            instance["InstanceId"]
            for reservation in ec2.describe_instances(
                Filters=[{"Name": "instance-state-name", "Values": _OPEN_INSTANCE_STATES}]
            )["Reservations"]
            for instance in reservation["Instances"]
        ],
        "volume": lambda: [volume["VolumeId"] for volume in ec2.describe_volumes()["Volumes"]],
        "address": lambda: [address["AllocationId"] for address in ec2.describe_addresses()["Addresses"]],
        "NAT gateway": lambda: [
            nat["NatGatewayId"] for nat in ec2.describe_nat_gateways()["NatGateways"] if nat["State"] != "deleted"
        ],
        # That of the default VPC has no tags.
        "internet gateway": lambda: [
            gateway["InternetGatewayId"]
            for gateway in ec2.describe_internet_gateways()["InternetGateways"]
            if gateway["Tags"]
        ],
        "VPC endpoint": lambda: [
            one["VpcEndpointId"]
            for one in ec2.describe_vpc_endpoints()["VpcEndpoints"]
            if one["State"].lower() != "deleted"
        ],
        "network interface": lambda: [
            interface["NetworkInterfaceId"] for interface in ec2.describe_network_interfaces()["NetworkInterfaces"]
        ],
        "security group": lambda: [
            group["GroupId"]
            for group in ec2.describe_security_groups()["SecurityGroups"]
            if group["GroupName"] != "default"
        ],
        "placement group": lambda: [group["GroupName"] for group in ec2.describe_placement_groups()["PlacementGroups"]],
        "launch template": lambda: [
            template["LaunchTemplateName"] for template in ec2.describe_launch_templates()["LaunchTemplates"]
        ],
        "capacity reservation": lambda: [
            reservation["CapacityReservationId"]
            for reservation in ec2.describe_capacity_reservations()["CapacityReservations"]
            if reservation["State"] == "active"
        ],
        "EKS cluster": lambda: list(client("eks").list_clusters()["clusters"]),
        "IAM role": lambda: [role["RoleName"] for role in client("iam").list_roles()["Roles"]],
        "KMS alias": lambda: [
            alias["AliasName"]
            for alias in kms.list_aliases()["Aliases"]
            if not alias["AliasName"].startswith("alias/aws/")
        ],
        "KMS key": lambda: [
            key["KeyId"] for key in kms.list_keys()["Keys"] if _bills(kms.describe_key(KeyId=key["KeyId"]))
        ],
        "bucket": lambda: [bucket["Name"] for bucket in client("s3").list_buckets()["Buckets"]],
        "log group": lambda: [group["logGroupName"] for group in client("logs").describe_log_groups()["logGroups"]],
        "file system": lambda: [one["FileSystemId"] for one in client("fsx").describe_file_systems()["FileSystems"]],
    }
    found = {kind: look() for kind, look in kinds.items()}
    return {kind: names for kind, names in found.items() if names}


def _bills(answer: Any) -> bool:
    about = answer["KeyMetadata"]
    return about["KeyState"] != "PendingDeletion" and about["KeyManager"] != "AWS"
