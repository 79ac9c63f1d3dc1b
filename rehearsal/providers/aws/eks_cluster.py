"""EKS cluster and add-on."""

from __future__ import annotations

import json

from ..naming import Autoname
from ..values import Properties, Props, Value
from .kind import Call, Kind, void
from .tagging import retag_arn

LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
MODES = ("API", "API_AND_CONFIG_MAP", "CONFIG_MAP")


def _create_cluster(call: Call) -> str:
    inputs = call.inputs
    name = inputs.text("name")
    call(
        "eks",
        "CreateCluster",
        name=name,
        roleArn=inputs.text("roleArn"),
        version=inputs.text("version") or None,
        resourcesVpcConfig=_vpc_config(inputs.block("vpcConfig")),
        kubernetesNetworkConfig=_network_config(inputs),
        logging=_logging(inputs),
        encryptionConfig=_encryption(inputs),
        accessConfig=_plain(inputs.get("accessConfig")),
        upgradePolicy=_plain(inputs.get("upgradePolicy")),
        deletionProtection=inputs.flag("deletionProtection") if "deletionProtection" in inputs else None,
        bootstrapSelfManagedAddons=inputs.flag("bootstrapSelfManagedAddons", default=True),
        tags=call.tags(),
    )
    return name


def _vpc_config(block: Props) -> dict[str, object]:
    config: dict[str, object] = {"subnetIds": block.texts("subnetIds")}
    if block.texts("securityGroupIds"):
        config["securityGroupIds"] = block.texts("securityGroupIds")
    for name in ("endpointPrivateAccess", "endpointPublicAccess"):
        if name in block:
            config[name] = block.flag(name)
    if block.texts("publicAccessCidrs"):
        config["publicAccessCidrs"] = block.texts("publicAccessCidrs")
    return config


def _network_config(inputs: Props) -> dict[str, object] | None:
    block = inputs.block("kubernetesNetworkConfig")
    names = [name for name in ("serviceIpv4Cidr", "ipFamily") if block.text(name)]
    return {name: block.text(name) for name in names} or None


def _logging(inputs: Props) -> dict[str, object]:
    on = inputs.texts("enabledClusterLogTypes")
    off = [name for name in LOG_TYPES if name not in on]
    groups = ((on, True), (off, False))
    return {"clusterLogging": [{"types": types, "enabled": enabled} for types, enabled in groups if types]}


def _encryption(inputs: Props) -> list[dict[str, object]] | None:
    block = inputs.block("encryptionConfig")
    if not block.values:
        return None
    return [{"resources": block.texts("resources"), "provider": {"keyArn": block.text("provider.keyArn")}}]


def _plain(value: Value) -> dict[str, Value] | None:
    """Give a block without the provider's own note of defaults."""
    return {key: item for key, item in value.items() if key != "__defaults"} if isinstance(value, dict) else None


def _read_cluster(call: Call) -> Properties | None:
    found = call("eks", "DescribeCluster", name=call.id).block("cluster")
    vpc = found.block("resourcesVpcConfig")
    enabled = [
        name
        for group in found.blocks("logging.clusterLogging")
        if group.flag("enabled")
        for name in group.texts("types")
    ]
    encryption = found.blocks("encryptionConfig")
    return {
        "arn": found.text("arn"),
        "name": found.text("name"),
        "clusterId": "",
        "roleArn": found.text("roleArn"),
        "createdAt": found.text("createdAt"),
        "endpoint": found.text("endpoint"),
        "platformVersion": found.text("platformVersion"),
        "status": found.text("status"),
        "version": found.text("version"),
        "certificateAuthority": {"data": found.text("certificateAuthority.data")},
        "identities": [{"oidcs": [{"issuer": found.text("identity.oidc.issuer")}]}],
        "vpcConfig": {
            "clusterSecurityGroupId": vpc.text("clusterSecurityGroupId"),
            "endpointPrivateAccess": vpc.flag("endpointPrivateAccess"),
            "endpointPublicAccess": vpc.flag("endpointPublicAccess", default=True),
            "publicAccessCidrs": [*vpc.texts("publicAccessCidrs")],
            "securityGroupIds": [*vpc.texts("securityGroupIds")],
            "subnetIds": [*vpc.texts("subnetIds")],
            "vpcId": vpc.text("vpcId"),
        },
        "accessConfig": {
            "authenticationMode": found.text("accessConfig.authenticationMode", "CONFIG_MAP"),
            "bootstrapClusterCreatorAdminPermissions": found.flag(
                "accessConfig.bootstrapClusterCreatorAdminPermissions"
            ),
        },
        "enabledClusterLogTypes": [*enabled] or None,
        "encryptionConfig": (
            {
                "provider": {"keyArn": encryption[0].text("provider.keyArn")},
                "resources": [*encryption[0].texts("resources")],
            }
            if encryption
            else None
        ),
        "kubernetesNetworkConfig": {
            "ipFamily": found.text("kubernetesNetworkConfig.ipFamily", "ipv4"),
            "serviceIpv4Cidr": found.text("kubernetesNetworkConfig.serviceIpv4Cidr"),
            "serviceIpv6Cidr": "",
        },
        "upgradePolicy": {"supportType": found.text("upgradePolicy.supportType", "EXTENDED")},
        "deletionProtection": found.flag("deletionProtection"),
        "tags": {**found.mapping("tags")} or None,
    }


def _update_cluster(call: Call) -> None:
    if call.changed("version"):
        call("eks", "UpdateClusterVersion", name=call.id, version=call.inputs.text("version"))
    if call.changed("encryptionConfig"):
        call("eks", "AssociateEncryptionConfig", clusterName=call.id, encryptionConfig=_encryption(call.inputs))
    if call.changed("accessConfig"):
        mode = {"authenticationMode": call.inputs.text("accessConfig.authenticationMode")}
        call("eks", "UpdateClusterConfig", name=call.id, accessConfig=mode)
    if call.changed("enabledClusterLogTypes"):
        call("eks", "UpdateClusterConfig", name=call.id, logging=_logging(call.inputs))
    if call.changed("vpcConfig"):
        call("eks", "UpdateClusterConfig", name=call.id, resourcesVpcConfig=_vpc_config(call.inputs.block("vpcConfig")))
    if call.changed("upgradePolicy"):
        call("eks", "UpdateClusterConfig", name=call.id, upgradePolicy=_plain(call.inputs.get("upgradePolicy")))
    if call.changed("deletionProtection"):
        call("eks", "UpdateClusterConfig", name=call.id, deletionProtection=call.inputs.flag("deletionProtection"))
    retag_arn(call, "eks", call.state.text("arn"))


def _cluster_values(inputs: Props) -> list[tuple[str, str]]:
    problems: list[tuple[str, str]] = []
    for name in inputs.texts("enabledClusterLogTypes"):
        if name not in LOG_TYPES:
            problems.append(
                ("enabledClusterLogTypes", f"enabledClusterLogTypes must be of {', '.join(LOG_TYPES)}, found {name!r}")
            )
    mode = inputs.text("accessConfig.authenticationMode")
    if mode and mode not in MODES:
        problems.append(
            ("accessConfig.authenticationMode", f"authenticationMode must be {', '.join(MODES)}, found {mode!r}")
        )
    vpc = inputs.block("vpcConfig")
    subnets = vpc.get("subnetIds")
    if isinstance(subnets, list) and len(subnets) < 2:
        problems.append(
            ("vpcConfig.subnetIds", f"subnetIds must have subnets of at least two zones, found {len(subnets)}")
        )
    if not vpc.flag("endpointPublicAccess", default=True):
        if "endpointPrivateAccess" in vpc and not vpc.flag("endpointPrivateAccess"):
            problems.append(
                ("vpcConfig.endpointPublicAccess", "public and private endpoint access can not both be off")
            )
        if vpc.get("publicAccessCidrs"):
            problems.append(("vpcConfig.publicAccessCidrs", "publicAccessCidrs is only for a public endpoint"))
    return problems


CLUSTER = Kind(
    title="EKS Cluster",
    create=_create_cluster,
    read=_read_cluster,
    update=_update_cluster,
    delete=lambda call: void(call("eks", "DeleteCluster", name=call.id)),
    replace_on=(
        "name",
        "roleArn",
        "bootstrapSelfManagedAddons",
        "accessConfig.bootstrapClusterCreatorAdminPermissions",
        "encryptionConfig.provider.keyArn",
        "kubernetesNetworkConfig.ipFamily",
        "kubernetesNetworkConfig.serviceIpv4Cidr",
        "outpostConfig",
    ),
    sets=("vpcConfig.subnetIds", "vpcConfig.securityGroupIds", "vpcConfig.publicAccessCidrs", "enabledClusterLogTypes"),
    autoname=Autoname(most=100),
    defaults={"bootstrapSelfManagedAddons": True},
    rules=(_cluster_values,),
    gone=("ResourceNotFoundException",),
)


def _addon_parts(call: Call) -> tuple[str, str]:
    cluster, _, addon = call.id.partition(":")
    return cluster, addon


def _addon_settings(inputs: Props) -> dict[str, object]:
    return {
        name: inputs.text(name) or None for name in ("addonVersion", "configurationValues", "serviceAccountRoleArn")
    }


def _create_addon(call: Call) -> str:
    inputs = call.inputs
    cluster, addon = inputs.text("clusterName"), inputs.text("addonName")
    call(
        "eks",
        "CreateAddon",
        clusterName=cluster,
        addonName=addon,
        resolveConflicts=inputs.text("resolveConflictsOnCreate") or None,
        tags=call.tags(),
        **_addon_settings(inputs),
    )
    return f"{cluster}:{addon}"


def _read_addon(call: Call) -> Properties | None:
    cluster, addon = _addon_parts(call)
    found = call("eks", "DescribeAddon", clusterName=cluster, addonName=addon).block("addon")
    return {
        "arn": found.text("addonArn"),
        "clusterName": cluster,
        "addonName": addon,
        "addonVersion": found.text("addonVersion"),
        "configurationValues": found.text("configurationValues"),
        "createdAt": found.text("createdAt"),
        "modifiedAt": found.text("modifiedAt"),
        "serviceAccountRoleArn": found.text("serviceAccountRoleArn") or None,
        "tags": {**found.mapping("tags")} or None,
    }


def _update_addon(call: Call) -> None:
    cluster, addon = _addon_parts(call)
    if call.changed("addonVersion", "configurationValues", "serviceAccountRoleArn"):
        resolve = call.inputs.text("resolveConflictsOnUpdate") or None
        call(
            "eks",
            "UpdateAddon",
            clusterName=cluster,
            addonName=addon,
            resolveConflicts=resolve,
            **_addon_settings(call.inputs),
        )
    retag_arn(call, "eks", call.state.text("arn"))


def _delete_addon(call: Call) -> None:
    cluster, addon = _addon_parts(call)
    call("eks", "DeleteAddon", clusterName=cluster, addonName=addon, preserve=call.state.flag("preserve"))


def _addon_values(inputs: Props) -> list[tuple[str, str]]:
    problems: list[tuple[str, str]] = []
    for name, allowed in (
        ("resolveConflictsOnCreate", ("NONE", "OVERWRITE")),
        ("resolveConflictsOnUpdate", ("NONE", "OVERWRITE", "PRESERVE")),
    ):
        if inputs.text(name) and inputs.text(name) not in allowed:
            problems.append((name, f"{name} must be {', '.join(allowed)}, found {inputs.text(name)!r}"))
    configuration = inputs.text("configurationValues")
    if configuration:
        try:
            json.loads(configuration)
        except ValueError as error:
            problems.append(("configurationValues", f"configurationValues must be JSON text: {error}"))
    return problems


ADDON = Kind(
    title="EKS Add-On",
    create=_create_addon,
    read=_read_addon,
    update=_update_addon,
    delete=_delete_addon,
    replace_on=("addonName", "clusterName", "namespaceConfig"),
    rules=(_addon_values,),
    gone=("ResourceNotFoundException",),
)
