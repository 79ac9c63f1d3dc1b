"""The instances that the node groups of the local AWS run, as facts for Kubernetes nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rehearsal.aws_client import aws_client
from rehearsal.scheduling import Taint

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import InstanceTypeDef
    from mypy_boto3_eks import EKSClient
    from mypy_boto3_eks.type_defs import NodegroupTypeDef

_EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "NO_EXECUTE": "NoExecute",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
}
_TIMEOUT_S = 30
_EFA_INTERFACES = ("efa", "efa-only")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A running instance of a managed node group."""

    instance_id: str
    instance_type: str
    private_ip: str
    region: str
    zone: str
    zone_id: str
    node_group: str
    capacity_type: str
    """ON_DEMAND, SPOT or CAPACITY_BLOCK, as EKS names it."""
    efa_interfaces: int
    """EFA interfaces that the launch template attaches, not what the type could have."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels of the node group."""
    taints: tuple[Taint, ...] = ()

    @property
    def node_name(self) -> str:
        """Return the private DNS name, which EKS gives to a node outside us-east-1 and in it."""
        domain = "ec2.internal" if self.region == "us-east-1" else f"{self.region}.compute.internal"
        return f"ip-{self.private_ip.replace('.', '-')}.{domain}"


class Fleet:
    """Reads node groups and instances through the AWS API at `endpoint`."""

    def __init__(self, endpoint: str, region: str) -> None:
        self._region = region
        self._eks: EKSClient = aws_client(endpoint, region, "eks", read_timeout=_TIMEOUT_S)
        self._ec2: EC2Client = aws_client(endpoint, region, "ec2", read_timeout=_TIMEOUT_S)
        self._zone_ids: dict[str, str] = {}
        self._efa: dict[tuple[str, str], int] = {}
        """By id and number of a launch template's version: one never changes."""

    def clusters(self) -> list[str]:
        """Return the names of the EKS clusters."""
        return self._eks.list_clusters()["clusters"]

    def instances(self, clusters: Iterable[str]) -> list[Instance]:
        """Return the running instances of every node group of `clusters`, by node name."""
        groups: dict[tuple[str, str], NodegroupTypeDef] = {}
        for cluster in clusters:
            # Either may be deleted between two calls.
            with contextlib.suppress(self._eks.exceptions.ResourceNotFoundException):
                for name in self._eks.list_nodegroups(clusterName=cluster)["nodegroups"]:
                    answer = self._eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)
                    groups[cluster, name] = answer["nodegroup"]
        if not groups:
            return []
        found: list[Instance] = []
        efa = {key: self._efa_interfaces(group) for key, group in groups.items()}
        pages = self._ec2.get_paginator("describe_instances").paginate(
            Filters=[
                {"Name": "tag-key", "Values": ["eks:nodegroup-name"]},
                {"Name": "instance-state-name", "Values": ["running"]},
            ]
        )
        for page in pages:
            for reservation in page["Reservations"]:
                for instance in reservation.get("Instances", []):
                    tags = {tag.get("Key", ""): tag.get("Value", "") for tag in instance.get("Tags", [])}
                    key = tags.get("eks:cluster-name", ""), tags.get("eks:nodegroup-name", "")
                    if key in groups:
                        found.append(self._instance(instance, groups[key], efa[key]))
        return sorted(found, key=lambda instance: instance.node_name)

    def _instance(self, instance: InstanceTypeDef, group: NodegroupTypeDef, efa_interfaces: int) -> Instance:
        zone = instance.get("Placement", {}).get("AvailabilityZone", "")
        return Instance(
            instance_id=instance.get("InstanceId", ""),
            instance_type=str(instance.get("InstanceType", "")),
            private_ip=instance.get("PrivateIpAddress", ""),
            region=self._region,
            zone=zone,
            zone_id=self._zone_id(zone),
            node_group=group.get("nodegroupName", ""),
            capacity_type=group.get("capacityType", "ON_DEMAND"),
            efa_interfaces=efa_interfaces,
            labels=dict(group.get("labels", {})),
            taints=tuple(
                Taint(
                    key=taint.get("key", ""),
                    value=taint.get("value", ""),
                    effect=_EFFECTS[taint.get("effect", "NO_SCHEDULE")],
                )
                for taint in group.get("taints", [])
            ),
        )

    def _zone_id(self, zone: str) -> str:
        if zone not in self._zone_ids:
            answer = self._ec2.describe_availability_zones()
            self._zone_ids = {z.get("ZoneName", ""): z.get("ZoneId", "") for z in answer["AvailabilityZones"]}
        return self._zone_ids[zone]

    def _efa_interfaces(self, group: NodegroupTypeDef) -> int:
        template = group.get("launchTemplate", {})
        if not template:
            return 0
        key = template.get("id", ""), template.get("version", "$Default")
        if key not in self._efa:
            answer = self._ec2.describe_launch_template_versions(LaunchTemplateId=key[0], Versions=[key[1]])
            interfaces = answer["LaunchTemplateVersions"][0].get("LaunchTemplateData", {}).get("NetworkInterfaces", [])
            number = sum(interface.get("InterfaceType") in _EFA_INTERFACES for interface in interfaces)
            if not key[1].isdecimal():
                # $Default and $Latest move.
                return number
            self._efa[key] = number
        return self._efa[key]
