"""Resources that arrive as references: they are read back from the engine by their URN."""

from __future__ import annotations

from typing import Any

import pulumi
from pulumi.runtime import rpc
from semver import VersionInfo

from ..sdk_schema import resource_schema

_MODULES = (
    ("aws", "iam/role"),
    ("aws", "ec2/securityGroup"),
    ("aws", "ec2/securityGroupRule"),
    ("aws", "eks/cluster"),
    ("aws", "eks/nodeGroup"),
)


class Existing(pulumi.CustomResource):
    """A resource of pulumi-aws that another process made."""

    def __init__(self, token: str, name: str, urn: str) -> None:
        names = dict.fromkeys(resource_schema(token).outputs)
        super().__init__(token, name, names, pulumi.ResourceOptions(urn=urn))


class ExistingCluster(pulumi.ComponentResource):
    """An eks.Cluster that this provider made for the program before."""

    core: pulumi.Output[Any]

    def __init__(self, name: str, urn: str) -> None:
        super().__init__("eks:index:Cluster", name, {"core": None}, pulumi.ResourceOptions(urn=urn))


class _Module(rpc.ResourceModule):
    def version(self) -> VersionInfo | None:
        return None

    def construct(self, name: str, typ: str, urn: str) -> pulumi.Resource:
        return ExistingCluster(name, urn) if typ == "eks:index:Cluster" else Existing(typ, name, urn)


def register_modules() -> None:
    """Tell the SDK how references turn into resources."""
    for package, module in (*_MODULES, ("eks", "index")):
        rpc.register_resource_module(package, module, _Module())
