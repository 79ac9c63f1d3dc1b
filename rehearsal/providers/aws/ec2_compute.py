"""Placement group, capacity reservation and launch template."""

from __future__ import annotations

from rehearsal.local_aws import catalog

from ..naming import Autoname
from ..values import Properties, Props
from . import launch_data
from .kind import Call, Kind, from_tag_list, void
from .tagging import retag_ec2, retag_ec2_id


def _create_placement_group(call: Call) -> str:
    name = call.inputs.text("name")
    call(
        "ec2",
        "CreatePlacementGroup",
        GroupName=name,
        Strategy=call.inputs.text("strategy"),
        PartitionCount=call.inputs.number("partitionCount") or None,
        SpreadLevel=call.inputs.text("spreadLevel") or None,
        TagSpecifications=call.ec2_tags("placement-group"),
    )
    return name


def _read_placement_group(call: Call) -> Properties | None:
    group = call("ec2", "DescribePlacementGroups", GroupNames=[call.id]).block("PlacementGroups.0")
    return {
        "arn": group.text("GroupArn"),
        "name": group.text("GroupName"),
        "placementGroupId": group.text("GroupId"),
        "strategy": group.text("Strategy"),
        "partitionCount": group.number("PartitionCount"),
        "spreadLevel": group.text("SpreadLevel"),
        "tags": from_tag_list(group.blocks("Tags")),
    }


def _placement_parts(inputs: Props) -> list[tuple[str, str]]:
    strategy = inputs.text("strategy", "cluster")
    problems: list[tuple[str, str]] = []
    if strategy not in ("cluster", "partition", "spread"):
        problems.append(("strategy", f"strategy must be cluster, partition or spread, found {strategy!r}"))
    if strategy != "partition" and inputs.get("partitionCount") is not None:
        problems.append(("partitionCount", f"partitionCount is only for strategy partition, found strategy {strategy}"))
    if strategy != "spread" and inputs.get("spreadLevel") is not None:
        problems.append(("spreadLevel", f"spreadLevel is only for strategy spread, found strategy {strategy}"))
    return problems


PLACEMENT_GROUP = Kind(
    title="EC2 Placement Group",
    create=_create_placement_group,
    read=_read_placement_group,
    update=lambda call: retag_ec2_id(call, call.state.text("placementGroupId")),
    delete=lambda call: void(call("ec2", "DeletePlacementGroup", GroupName=call.id)),
    replace_on=("name", "partitionCount", "spreadLevel", "strategy"),
    autoname=Autoname(),
    rules=(_placement_parts,),
    gone=("InvalidPlacementGroup.Unknown",),
)


def _create_reservation(call: Call) -> str:
    inputs = call.inputs
    made = call(
        "ec2",
        "CreateCapacityReservation",
        AvailabilityZone=inputs.text("availabilityZone"),
        InstanceType=inputs.text("instanceType"),
        InstancePlatform=inputs.text("instancePlatform"),
        InstanceCount=inputs.number("instanceCount"),
        InstanceMatchCriteria=inputs.text("instanceMatchCriteria", "open"),
        PlacementGroupArn=inputs.text("placementGroupArn") or None,
        TagSpecifications=call.ec2_tags("capacity-reservation"),
    )
    return made.text("CapacityReservation.CapacityReservationId")


def _read_reservation(call: Call) -> Properties | None:
    found = call("ec2", "DescribeCapacityReservations", CapacityReservationIds=[call.id]).block(
        "CapacityReservations.0"
    )
    if found.text("State") in ("cancelled", "expired"):
        return None
    return {
        "arn": found.text("CapacityReservationArn"),
        "ownerId": found.text("OwnerId"),
        "availabilityZone": found.text("AvailabilityZone"),
        "instanceType": found.text("InstanceType"),
        "instanceCount": found.number("TotalInstanceCount"),
        "instanceMatchCriteria": found.text("InstanceMatchCriteria"),
        "tags": from_tag_list(found.blocks("Tags")),
    }


CAPACITY_RESERVATION = Kind(
    title="EC2 Capacity Reservation",
    create=_create_reservation,
    read=_read_reservation,
    update=retag_ec2,
    delete=lambda call: void(call("ec2", "CancelCapacityReservation", CapacityReservationId=call.id)),
    replace_on=(
        "availabilityZone",
        "ebsOptimized",
        "ephemeralStorage",
        "instanceMatchCriteria",
        "instancePlatform",
        "instanceType",
        "outpostArn",
        "placementGroupArn",
        "tenancy",
        "instanceCount",
    ),
    gone=("InvalidCapacityReservationId.NotFound",),
)


def _create_template(call: Call) -> str:
    made = call(
        "ec2",
        "CreateLaunchTemplate",
        LaunchTemplateName=call.inputs.text("name"),
        VersionDescription=call.inputs.text("description") or None,
        LaunchTemplateData=launch_data.to_api(call.inputs),
        TagSpecifications=call.ec2_tags("launch-template"),
    )
    return made.text("LaunchTemplate.LaunchTemplateId")


def _read_template(call: Call) -> Properties | None:
    template = call("ec2", "DescribeLaunchTemplates", LaunchTemplateIds=[call.id]).block("LaunchTemplates.0")
    if not template.values:
        return None
    metadata = {"metadataOptions": call.inputs.get("metadataOptions") or {}}
    return {
        "arn": f"arn:aws:ec2:{call.region}:{catalog.ACCOUNT}:launch-template/{call.id}",
        "name": template.text("LaunchTemplateName"),
        "namePrefix": "",
        "latestVersion": template.number("LatestVersionNumber"),
        "defaultVersion": template.number("DefaultVersionNumber"),
        "tags": from_tag_list(template.blocks("Tags")),
        **metadata,
    }


_NOT_DATA = ("name", "namePrefix", "tags", "tagsAll", "region", "updateDefaultVersion", "defaultVersion", "__defaults")


def _update_template(call: Call) -> None:
    names = (set(call.old) | set(call.inputs)) - set(_NOT_DATA)
    if call.changed(*names):
        made = call(
            "ec2",
            "CreateLaunchTemplateVersion",
            LaunchTemplateId=call.id,
            VersionDescription=call.inputs.text("description") or None,
            LaunchTemplateData=launch_data.to_api(call.inputs),
        )
        if call.inputs.flag("updateDefaultVersion"):
            version = str(made.number("LaunchTemplateVersion.VersionNumber"))
            call("ec2", "ModifyLaunchTemplate", LaunchTemplateId=call.id, DefaultVersion=version)
    if call.inputs.number("defaultVersion") and call.changed("defaultVersion"):
        call(
            "ec2",
            "ModifyLaunchTemplate",
            LaunchTemplateId=call.id,
            DefaultVersion=str(call.inputs.number("defaultVersion")),
        )
    retag_ec2(call)


LAUNCH_TEMPLATE = Kind(
    title="EC2 Launch Template",
    create=_create_template,
    read=_read_template,
    update=_update_template,
    delete=lambda call: void(call("ec2", "DeleteLaunchTemplate", LaunchTemplateId=call.id)),
    replace_on=("name", "namePrefix"),
    sets=("networkInterfaces.securityGroups", "vpcSecurityGroupIds"),
    autoname=Autoname(most=128),
    rules=(launch_data.interfaces_rule, launch_data.names_rule, launch_data.efa_rule),
    recomputed=("latestVersion", "defaultVersion"),
    gone=(
        "InvalidLaunchTemplateId.NotFound",
        "InvalidLaunchTemplateId.NotFoundException",
        "InvalidLaunchTemplateName.NotFoundException",
    ),
)
