"""EKS managed node group."""

from __future__ import annotations

from ..errors import OperationError
from ..naming import Autoname
from ..values import Properties, Props, Value
from .kind import Call, Kind
from .tagging import retag_arn

AMI_TYPES = (
    "AL2_x86_64",
    "AL2_x86_64_GPU",
    "AL2_ARM_64",
    "CUSTOM",
    "BOTTLEROCKET_ARM_64",
    "BOTTLEROCKET_x86_64",
    "BOTTLEROCKET_ARM_64_FIPS",
    "BOTTLEROCKET_x86_64_FIPS",
    "BOTTLEROCKET_ARM_64_NVIDIA",
    "BOTTLEROCKET_x86_64_NVIDIA",
    "BOTTLEROCKET_ARM_64_NVIDIA_FIPS",
    "BOTTLEROCKET_x86_64_NVIDIA_FIPS",
    "WINDOWS_CORE_2019_x86_64",
    "WINDOWS_FULL_2019_x86_64",
    "WINDOWS_CORE_2022_x86_64",
    "WINDOWS_FULL_2022_x86_64",
    "WINDOWS_CORE_2025_x86_64",
    "WINDOWS_FULL_2025_x86_64",
    "AL2023_x86_64_STANDARD",
    "AL2023_ARM_64_STANDARD",
    "AL2023_x86_64_NEURON",
    "AL2023_x86_64_NVIDIA",
    "AL2023_ARM_64_NVIDIA",
)
"""https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html"""
CAPACITY_TYPES = ("ON_DEMAND", "SPOT", "CAPACITY_BLOCK")
TAINT_EFFECTS = ("NO_SCHEDULE", "NO_EXECUTE", "PREFER_NO_SCHEDULE")


def _create(call: Call) -> str:
    inputs = call.inputs
    cluster, name = inputs.text("clusterName"), inputs.text("nodeGroupName")
    call(
        "eks",
        "CreateNodegroup",
        clusterName=cluster,
        nodegroupName=name,
        nodeRole=inputs.text("nodeRoleArn"),
        subnets=inputs.texts("subnetIds"),
        scalingConfig=_block(inputs.get("scalingConfig")),
        amiType=inputs.text("amiType") or None,
        capacityType=inputs.text("capacityType") or None,
        diskSize=inputs.number("diskSize") or None,
        instanceTypes=inputs.texts("instanceTypes") or None,
        labels=inputs.mapping("labels") or None,
        taints=_taints(inputs),
        launchTemplate=_block(inputs.get("launchTemplate")),
        updateConfig=_block(inputs.get("updateConfig")),
        nodeRepairConfig=_block(inputs.get("nodeRepairConfig")),
        version=inputs.text("version") or None,
        releaseVersion=inputs.text("releaseVersion") or None,
        tags=call.tags() or None,
    )
    return f"{cluster}:{name}"


def failure(call: Call) -> str | None:
    """Say why a group that was just made did not become active, in the words of pulumi-aws; None when it did."""
    found = _describe(call)
    if found.text("status") != "CREATE_FAILED":
        return None
    issues = [
        f"\t* {', '.join(issue.texts('resourceIds'))}: {issue.text('code')}: {issue.text('message')}"
        for issue in found.blocks("health.issues")
    ]
    many = f"{len(issues)} error{'' if len(issues) == 1 else 's'} occurred"
    return (
        f"waiting for EKS Node Group ({call.id}) create: unexpected state 'CREATE_FAILED', wanted target 'ACTIVE'. "
        f"last error: {many}:\n" + "\n".join(issues)
    )


def _describe(call: Call) -> Props:
    cluster, _, name = call.id.partition(":")
    return call("eks", "DescribeNodegroup", clusterName=cluster, nodegroupName=name).block("nodegroup")


def _read(call: Call) -> Properties | None:
    found = _describe(call)
    template = found.block("launchTemplate")
    taints: list[Value] = [
        {name: taint.text(name) for name in ("key", "value", "effect") if taint.text(name)}
        for taint in found.blocks("taints")
    ]
    groups: list[Value] = [{"name": group.text("name")} for group in found.blocks("resources.autoScalingGroups")]
    return {
        "arn": found.text("nodegroupArn"),
        "clusterName": found.text("clusterName"),
        "nodeGroupName": found.text("nodegroupName"),
        "nodeGroupNamePrefix": "",
        "nodeRoleArn": found.text("nodeRole"),
        "amiType": found.text("amiType"),
        "capacityType": found.text("capacityType"),
        "diskSize": 0 if template.values else found.number("diskSize"),
        "instanceTypes": [*found.texts("instanceTypes")],
        "labels": {**found.mapping("labels")} or None,
        "launchTemplate": (
            {name: template.text(name) for name in ("id", "name", "version")} if template.values else None
        ),
        "scalingConfig": {
            name: found.number(f"scalingConfig.{name}") for name in ("desiredSize", "maxSize", "minSize")
        },
        "status": found.text("status"),
        "subnetIds": [*found.texts("subnets")],
        "taints": taints or None,
        "updateConfig": found.get("updateConfig"),
        "nodeRepairConfig": found.get("nodeRepairConfig"),
        "releaseVersion": found.text("releaseVersion"),
        "version": found.text("version"),
        "resources": [{"autoscalingGroups": groups, "remoteAccessSecurityGroupId": ""}],
        "tags": {**found.mapping("tags")} or None,
    }


def _update(call: Call) -> None:
    cluster, _, name = call.id.partition(":")
    group = {"clusterName": cluster, "nodegroupName": name}
    inputs, old = call.inputs, call.old
    if call.changed("launchTemplate", "releaseVersion", "version"):
        answer = call(
            "eks",
            "UpdateNodegroupVersion",
            **group,
            launchTemplate=_block(inputs.get("launchTemplate")),
            releaseVersion=inputs.text("releaseVersion") or None,
            version=inputs.text("version") or None,
            force=inputs.flag("forceUpdateVersion"),
        )
        _refuse_failed(call, answer)
    changed: dict[str, object] = {}
    if call.changed("labels"):
        before, after = old.mapping("labels"), inputs.mapping("labels")
        changed["labels"] = {"addOrUpdateLabels": after, "removeLabels": sorted(set(before) - set(after))}
    if call.changed("taints"):
        after_taints = _taints(inputs) or []
        gone = [taint for taint in _taints(old) or [] if taint not in after_taints]
        changed["taints"] = {"addOrUpdateTaints": after_taints, "removeTaints": gone}
    for name_ in ("scalingConfig", "updateConfig", "nodeRepairConfig"):
        if call.changed(name_):
            changed[name_] = _block(inputs.get(name_))
    if changed:
        _refuse_failed(call, call("eks", "UpdateNodegroupConfig", **group, **changed))
    retag_arn(call, "eks", call.state.text("arn"))


def _refuse_failed(call: Call, answer: Props) -> None:
    if answer.text("update.status") == "Failed":
        errors = [
            f"\t* {error.text('errorCode')}: {error.text('errorMessage')}" for error in answer.blocks("update.errors")
        ]
        raise OperationError(
            f"waiting for EKS Node Group ({call.id}) update ({answer.text('update.id')}): unexpected state 'Failed', wanted target "
            f"'Successful'. last error: {len(errors)} error{'' if len(errors) == 1 else 's'} occurred:\n"
            + "\n".join(errors)
        )


def _delete(call: Call) -> None:
    cluster, _, name = call.id.partition(":")
    call("eks", "DeleteNodegroup", clusterName=cluster, nodegroupName=name)


def _block(value: Value) -> dict[str, object] | None:
    return {key: item for key, item in value.items() if key != "__defaults"} if isinstance(value, dict) else None


def _taints(inputs: Props) -> list[dict[str, str]] | None:
    taints = [
        {name: taint.text(name) for name in ("key", "value", "effect") if taint.text(name)}
        for taint in inputs.blocks("taints")
    ]
    return taints or None


def _values(inputs: Props) -> list[tuple[str, str]]:
    problems: list[tuple[str, str]] = []
    for name, allowed in (("amiType", AMI_TYPES), ("capacityType", CAPACITY_TYPES)):
        if inputs.text(name) and inputs.text(name) not in allowed:
            problems.append((name, f"{name} must be one of {', '.join(allowed)}, found {inputs.text(name)!r}"))
    for index, taint in enumerate(inputs.blocks("taints")):
        if taint.text("effect") and taint.text("effect") not in TAINT_EFFECTS:
            path = f"taints[{index}].effect"
            problems.append((path, f"{path} must be {', '.join(TAINT_EFFECTS)}, found {taint.text('effect')!r}"))
    for name in ("maxUnavailable", "maxUnavailablePercentage"):
        found = inputs.get(f"updateConfig.{name}")
        if isinstance(found, int) and not 1 <= found <= 100:
            problems.append((f"updateConfig.{name}", f"updateConfig.{name} must be 1 to 100, found {found}"))
    if (
        inputs.get("updateConfig.maxUnavailable") is not None
        and inputs.get("updateConfig.maxUnavailablePercentage") is not None
    ):
        problems.append(("updateConfig", "updateConfig: only one of maxUnavailable, maxUnavailablePercentage"))
    if inputs.get("launchTemplate.id") is not None and inputs.get("launchTemplate.name") is not None:
        problems.append(("launchTemplate", "launchTemplate: only one of id, name"))
    if inputs.get("launchTemplate") is not None:
        problems.extend(
            (name, f"{name} is not allowed beside launchTemplate; set it in the template")
            for name in ("diskSize", "remoteAccess")
            if inputs.get(name) is not None
        )
    return problems + _sizes(inputs)


def _sizes(inputs: Props) -> list[tuple[str, str]]:
    sizes = [inputs.get(f"scalingConfig.{name}") for name in ("minSize", "desiredSize", "maxSize")]
    if not all(isinstance(size, int) for size in sizes):
        return []
    least, wanted, most = (inputs.number(f"scalingConfig.{name}") for name in ("minSize", "desiredSize", "maxSize"))
    if least < 0 or most < 1 or not least <= wanted <= most:
        return [
            (
                "scalingConfig",
                f"scalingConfig must hold 0 <= minSize <= desiredSize <= maxSize, found {least}, {wanted}, {most}",
            )
        ]
    return []


NODE_GROUP = Kind(
    title="EKS Node Group",
    create=_create,
    read=_read,
    update=_update,
    delete=_delete,
    replace_on=(
        "amiType",
        "capacityType",
        "clusterName",
        "diskSize",
        "instanceTypes",
        "launchTemplate.id",
        "launchTemplate.name",
        "nodeGroupName",
        "nodeGroupNamePrefix",
        "nodeRoleArn",
        "remoteAccess",
        "subnetIds",
    ),
    sets=("subnetIds",),
    autoname=Autoname(property="nodeGroupName", most=63),
    rules=(_values,),
    unready=failure,
    gone=("ResourceNotFoundException",),
)
