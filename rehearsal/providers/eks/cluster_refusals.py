"""What an eks.Cluster is refused for: what the real component refuses, and what the stand-in would have to ignore."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

NOT_STOOD_IN = {
    "autoMode": "EKS Auto Mode",
    "creationRoleProvider": "a role that creates the cluster",
    "createInstanceRole": "an instance role made by the component",
    "fargate": "Fargate profiles",
    "instanceRole": "a default instance role",
    "nodeGroupOptions": "the default node group",
    "roleMappings": "the aws-auth config map",
    "storageClasses": "storage classes",
    "userMappings": "the aws-auth config map",
}
"""Inputs of the real component that the stand-in does not act on; it refuses them rather than ignore them."""


def refuse(name: str, inputs: Mapping[str, Any]) -> None:
    """Refuse what the real component refuses, and what the stand-in would have to ignore.

    Raises:
        pulumi.RunError: one line that names the input.
    """
    where = f"eks:index:Cluster {name}"
    mode = inputs.get("authenticationMode")
    if mode not in (None, "CONFIG_MAP", "API_AND_CONFIG_MAP", "API"):
        raise pulumi.RunError(
            f"{where}: Invalid value for authenticationMode: {mode}. Allowed values are: CONFIG_MAP, API_AND_CONFIG_MAP, API."
        )
    for key in ("roleMappings", "userMappings", "instanceRoles"):
        if mode == "API" and inputs.get(key):
            raise pulumi.RunError(
                f"{where}: The '{key}' property does not support non-empty values when 'authenticationMode' is set to 'API'."
            )
    if inputs.get("subnetIds") is not None and (inputs.get("publicSubnetIds") or inputs.get("privateSubnetIds")):
        raise pulumi.RunError(
            f"{where}: subnetIds, and the use of publicSubnetIds and/or privateSubnetIds are mutually exclusive. "
            "Choose a single approach."
        )
    if inputs.get("publicAccessCidrs") and inputs.get("endpointPublicAccess") is False:
        raise pulumi.RunError(f"{where}: `publicAccessCidrs` can only be set when `endpointPublicAccess` is true")
    if mode != "API":
        raise pulumi.RunError(
            f"{where}: the stand-in has authenticationMode API alone, found {mode}; the others need the aws-auth config map"
        )
    if not inputs.get("skipDefaultNodeGroup"):
        raise pulumi.RunError(
            f"{where}: the stand-in makes no default node group; set skipDefaultNodeGroup and use ManagedNodeGroup"
        )
    if not inputs.get("vpcId"):
        raise pulumi.RunError(f"{where}: the stand-in has no default VPC; give vpcId and subnets")
    for key, what in NOT_STOOD_IN.items():
        if inputs.get(key):
            raise pulumi.RunError(
                f"{where}: {key}: the stand-in does not have {what}; leave it out or use the real pulumi-eks"
            )
    if inputs.get("createOidcProvider"):
        raise pulumi.RunError(
            f"{where}: createOidcProvider: the stand-in reaches no OIDC issuer; use Pod Identity, or the real pulumi-eks"
        )
