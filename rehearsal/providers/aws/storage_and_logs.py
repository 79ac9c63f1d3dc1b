"""FSx for Lustre file system and CloudWatch log group."""

from __future__ import annotations

from ..naming import Autoname
from ..values import Properties, Props
from .kind import Call, Kind, as_tag_list, from_tag_list, void
from .tagging import changed_tags

RETENTION_DAYS = (
    0,
    1,
    3,
    5,
    7,
    14,
    30,
    60,
    90,
    120,
    150,
    180,
    365,
    400,
    545,
    731,
    1096,
    1827,
    2192,
    2557,
    2922,
    3288,
    3653,
)
"""https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html; 0: for ever."""
DEPLOYMENTS = ("SCRATCH_1", "SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2")


def _create_lustre(call: Call) -> str:
    inputs = call.inputs
    lustre: dict[str, object] = {"DeploymentType": inputs.text("deploymentType", "SCRATCH_1")}
    if inputs.number("perUnitStorageThroughput"):
        lustre["PerUnitStorageThroughput"] = inputs.number("perUnitStorageThroughput")
    if inputs.text("dataCompressionType"):
        lustre["DataCompressionType"] = inputs.text("dataCompressionType")
    made = call(
        "fsx",
        "CreateFileSystem",
        FileSystemType="LUSTRE",
        StorageCapacity=inputs.number("storageCapacity") or None,
        StorageType=inputs.text("storageType") or None,
        SubnetIds=[inputs.text("subnetIds")] if inputs.text("subnetIds") else inputs.texts("subnetIds"),
        SecurityGroupIds=inputs.texts("securityGroupIds") or None,
        KmsKeyId=inputs.text("kmsKeyId") or None,
        LustreConfiguration=lustre,
        Tags=as_tag_list(call.tags()) or None,
    )
    return made.text("FileSystem.FileSystemId")


def _read_lustre(call: Call) -> Properties | None:
    found = call("fsx", "DescribeFileSystems", FileSystemIds=[call.id]).block("FileSystems.0")
    if not found.values:
        return None
    return {
        "arn": found.text("ResourceARN"),
        "dnsName": found.text("DNSName") or f"{call.id}.fsx.{call.region}.amazonaws.com",
        "mountName": found.text("LustreConfiguration.MountName", "fsx"),
        "networkInterfaceIds": [*found.texts("NetworkInterfaceIds")],
        "ownerId": found.text("OwnerId"),
        "vpcId": found.text("VpcId"),
        "tags": from_tag_list(found.blocks("Tags")),
    }


def _update_lustre(call: Call) -> None:
    set_, removed = changed_tags(call)
    if removed:
        call("fsx", "UntagResource", ResourceARN=call.state.text("arn"), TagKeys=removed)
    if set_:
        call("fsx", "TagResource", ResourceARN=call.state.text("arn"), Tags=as_tag_list(set_))


def _lustre_values(inputs: Props) -> list[tuple[str, str]]:
    problems: list[tuple[str, str]] = []
    kind = inputs.text("deploymentType")
    if kind and kind not in DEPLOYMENTS:
        problems.append(("deploymentType", f"deploymentType must be {', '.join(DEPLOYMENTS)}, found {kind!r}"))
    if kind.startswith("SCRATCH") and inputs.get("perUnitStorageThroughput") is not None:
        problems.append(
            (
                "perUnitStorageThroughput",
                f"perUnitStorageThroughput is only for a PERSISTENT deploymentType, found {kind}",
            )
        )
    capacity = inputs.get("storageCapacity")
    if isinstance(capacity, int) and capacity != 1200 and capacity % 2400:
        problems.append(
            ("storageCapacity", f"storageCapacity must be 1200 or a multiple of 2400 GiB, found {capacity}")
        )
    return problems


LUSTRE = Kind(
    title="FSx for Lustre File System",
    create=_create_lustre,
    read=_read_lustre,
    update=_update_lustre,
    delete=lambda call: void(call("fsx", "DeleteFileSystem", FileSystemId=call.id)),
    replace_on=(
        "backupId",
        "copyTagsToBackups",
        "deploymentType",
        "driveCacheType",
        "efaEnabled",
        "exportPath",
        "fileSystemTypeVersion",
        "importPath",
        "importedFileChunkSize",
        "kmsKeyId",
        "securityGroupIds",
        "storageCapacity",
        "storageType",
        "subnetIds",
    ),
    sets=("securityGroupIds",),
    defaults={"deploymentType": "SCRATCH_1", "storageType": "SSD", "skipFinalBackup": True},
    rules=(_lustre_values,),
    gone=("FileSystemNotFound", "ResourceNotFoundException"),
)


def _create_log_group(call: Call) -> str:
    name = call.inputs.text("name")
    call(
        "logs",
        "CreateLogGroup",
        logGroupName=name,
        kmsKeyId=call.inputs.text("kmsKeyId") or None,
        logGroupClass=call.inputs.text("logGroupClass") or None,
        tags=call.tags() or None,
    )
    _retain(call, name)
    return name


def _retain(call: Call, name: str) -> None:
    days = call.inputs.number("retentionInDays")
    if days:
        call("logs", "PutRetentionPolicy", logGroupName=name, retentionInDays=days)
    elif call.old.number("retentionInDays"):
        call("logs", "DeleteRetentionPolicy", logGroupName=name)


def _read_log_group(call: Call) -> Properties | None:
    for group in call("logs", "DescribeLogGroups", logGroupNamePrefix=call.id).blocks("logGroups"):
        if group.text("logGroupName") == call.id:
            arn = group.text("arn").removesuffix(":*")
            return {
                "arn": arn,
                "name": call.id,
                "namePrefix": "",
                "logGroupClass": group.text("logGroupClass", "STANDARD"),
                "retentionInDays": group.number("retentionInDays"),
                "deletionProtectionEnabled": False,
                "tags": {**call("logs", "ListTagsForResource", resourceArn=arn).mapping("tags")} or None,
            }
    return None


def _update_log_group(call: Call) -> None:
    if call.changed("retentionInDays"):
        _retain(call, call.id)
    if call.changed("kmsKeyId"):
        if call.inputs.text("kmsKeyId"):
            call("logs", "AssociateKmsKey", logGroupName=call.id, kmsKeyId=call.inputs.text("kmsKeyId"))
        else:
            call("logs", "DisassociateKmsKey", logGroupName=call.id)
    set_, removed = changed_tags(call)
    if removed:
        call("logs", "UntagResource", resourceArn=call.state.text("arn"), tagKeys=removed)
    if set_:
        call("logs", "TagResource", resourceArn=call.state.text("arn"), tags=set_)


def _delete_log_group(call: Call) -> None:
    # The real one only forgets a group that it shall not destroy.
    if not call.state.flag("skipDestroy"):
        call("logs", "DeleteLogGroup", logGroupName=call.id)


def _retention(inputs: Props) -> list[tuple[str, str]]:
    days = inputs.get("retentionInDays")
    if isinstance(days, int) and days not in RETENTION_DAYS:
        return [
            ("retentionInDays", f"retentionInDays must be one of {', '.join(map(str, RETENTION_DAYS))}, found {days}")
        ]
    return []


LOG_GROUP = Kind(
    title="CloudWatch Logs Log Group",
    create=_create_log_group,
    read=_read_log_group,
    update=_update_log_group,
    delete=_delete_log_group,
    replace_on=("name", "namePrefix", "logGroupClass"),
    autoname=Autoname(most=512),
    defaults={"retentionInDays": 0, "skipDestroy": False},
    rules=(_retention,),
    gone=("ResourceNotFoundException",),
)
