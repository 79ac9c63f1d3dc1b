"""The add-ons that an eks.Cluster makes by itself: kube-proxy, vpc-cni and, when asked, coredns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pulumi

from ..sdk_schema import sdk_version
from .child import Child

ADDON = "aws:eks/addon:Addon"
OVERWRITE = "OVERWRITE"

_CNI_ENVIRONMENT = {
    # option of vpcCniOptions: (variable of aws-node, value when the option is not given; None leaves it out)
    "nodePortSupport": ("AWS_VPC_CNI_NODE_PORT_SUPPORT", None),
    "customNetworkConfig": ("AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG", None),
    "warmEniTarget": ("WARM_ENI_TARGET", "1"),
    "warmIpTarget": ("WARM_IP_TARGET", None),
    "warmPrefixTarget": ("WARM_PREFIX_TARGET", None),
    "enablePrefixDelegation": ("ENABLE_PREFIX_DELEGATION", None),
    "logLevel": ("AWS_VPC_K8S_CNI_LOGLEVEL", "DEBUG"),
    "logFile": ("AWS_VPC_K8S_CNI_LOG_FILE", "/host/var/log/aws-routed-eni/ipamd.log"),
    "vethPrefix": ("AWS_VPC_K8S_CNI_VETHPREFIX", "eni"),
    "eniMtu": ("AWS_VPC_ENI_MTU", "9001"),
    "eniConfigLabelDef": ("ENI_CONFIG_LABEL_DEF", None),
    "pluginLogLevel": ("AWS_VPC_K8S_PLUGIN_LOG_LEVEL", "DEBUG"),
    "pluginLogFile": ("AWS_VPC_K8S_PLUGIN_LOG_FILE", "/var/log/aws-routed-eni/plugin.log"),
    "enablePodEni": ("ENABLE_POD_ENI", "false"),
    "cniConfigureRpfilter": ("AWS_VPC_K8S_CNI_CONFIGURE_RPFILTER", None),
    "cniCustomNetworkCfg": ("AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG", "false"),
    "cniExternalSnat": ("AWS_VPC_K8S_CNI_EXTERNALSNAT", "false"),
    "externalSnat": ("AWS_VPC_K8S_CNI_EXTERNALSNAT", None),
}


def addon_version(name: str, given: Any, kubernetes: pulumi.Input[str], options: pulumi.InvokeOutputOptions) -> Any:
    """Give the version to install: the one given, or the newest for the Kubernetes version."""
    if given is not None:
        return given
    asked = {"addonName": name, "kubernetesVersion": kubernetes, "mostRecent": True}
    answer = pulumi.runtime.invoke_output("aws:eks/getAddonVersion:getAddonVersion", asked, options)
    return answer.apply(lambda found: found["version"])


def simple_addon(
    name: str, addon: str, cluster: Child, settings: Mapping[str, Any], tags: Any, parent: pulumi.ComponentResource
) -> Child:
    """Make kube-proxy or coredns."""
    version = addon_version(addon, settings.get("version"), cluster.output("version"), invoke_options(parent))
    return Child(
        ADDON,
        f"{name}-{addon}",
        {
            "clusterName": cluster.output("name"),
            "addonName": addon,
            "preserve": True,
            "tags": tags,
            "resolveConflictsOnCreate": settings.get("resolveConflictsOnCreate") or OVERWRITE,
            "resolveConflictsOnUpdate": settings.get("resolveConflictsOnUpdate") or OVERWRITE,
            "addonVersion": version,
            "configurationValues": _text(settings.get("configurationValues")),
        },
        pulumi.ResourceOptions(parent=parent),
    )


class VpcCniAddon(pulumi.ComponentResource):
    """The VPC CNI with its environment: a component of pulumi-eks."""

    def __init__(
        self, name: str, settings: Mapping[str, Any], cluster: Child, tags: Any, options: pulumi.ResourceOptions
    ) -> None:
        inputs = {
            **settings,
            "clusterName": cluster.output("name"),
            "clusterVersion": cluster.output("version"),
            "tags": settings.get("tags") or tags,
        }
        super().__init__("eks:index:VpcCniAddon", name, inputs, options)
        if settings.get("cniExternalSnat") and settings.get("externalSnat"):
            raise pulumi.RunError(f"eks:index:VpcCniAddon {name}: only one of cniExternalSnat, externalSnat")
        version = addon_version(
            "vpc-cni", settings.get("addonVersion"), cluster.output("version"), invoke_options(self)
        )
        self.addon = Child(
            ADDON,
            name,
            {
                "clusterName": cluster.output("name"),
                "addonName": "vpc-cni",
                "addonVersion": version,
                "resolveConflictsOnCreate": settings.get("resolveConflictsOnCreate") or OVERWRITE,
                "resolveConflictsOnUpdate": settings.get("resolveConflictsOnUpdate") or OVERWRITE,
                "preserve": True,
                "configurationValues": _text(pulumi.Output.from_input(dict(settings)).apply(cni_configuration)),
                "serviceAccountRoleArn": settings.get("serviceAccountRoleArn"),
                "tags": settings.get("tags") or tags,
            },
            pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"addon": self.addon})


def invoke_options(parent: pulumi.Resource) -> pulumi.InvokeOutputOptions:
    """Give the options of an invoke that belongs to a component."""
    return pulumi.InvokeOutputOptions(parent=parent, version=sdk_version("aws"))


def cni_configuration(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Give the add-on's configuration for vpcCniOptions: the environment with pulumi-eks's defaults, what was given on top."""
    environment: dict[str, str] = {}
    for option, (variable, default) in _CNI_ENVIRONMENT.items():
        value = settings.get(option)
        if value:
            environment[variable] = (
                "true" if value is True else str(int(value)) if isinstance(value, float) else str(value)
            )
        elif default is not None:
            environment.setdefault(variable, default)
    first = {"DISABLE_TCP_EARLY_DEMUX": "true" if settings.get("disableTcpEarlyDemux") else "false"}
    configuration: dict[str, Any] = dict(settings.get("configurationValues") or {})
    policy = settings.get("enableNetworkPolicy")
    if policy is not None:
        configuration.setdefault("enableNetworkPolicy", "true" if policy else "false")
    configuration["env"] = {**environment, **configuration.get("env", {})}
    given: dict[str, Any] = configuration.get("init", {})
    configuration["init"] = {**given, "env": {**first, **given.get("env", {})}}
    return configuration


def _text(values: Any) -> pulumi.Output[str] | None:
    """Give configuration as JSON with sorted keys, so that its order never makes a change."""
    if values is None:
        return None
    return pulumi.Output.from_input(values).apply(
        lambda found: json.dumps(found, sort_keys=True, separators=(",", ":"))
    )
