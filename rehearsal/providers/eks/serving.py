"""Serve the `eks` stand-in by the provider server of the Pulumi SDK."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import pulumi
import pulumi.provider as provider

from .. import checking
from ..sdk_schema import Property, resource_schema, sdk_version
from .cluster import Cluster
from .node_group import ManagedNodeGroup
from .references import register_modules

CLUSTER, NODE_GROUP = "eks:index:Cluster", "eks:index:ManagedNodeGroup"


class EksStandIn(provider.Provider):
    """Makes the components in the place of pulumi-resource-eks."""

    def __init__(self) -> None:
        super().__init__(sdk_version("eks"))

    def construct(
        self, name: str, resource_type: str, inputs: pulumi.Inputs, options: pulumi.ResourceOptions | None = None
    ) -> provider.ConstructResult:
        """Make a component; an unknown type or input is refused before anything is made."""
        if resource_type not in (CLUSTER, NODE_GROUP):
            raise pulumi.RunError(
                f"the eks stand-in of the rehearsal has no component {resource_type}; it has {CLUSTER} and {NODE_GROUP}"
            )
        refuse_unknown(name, resource_type, inputs, resource_schema(resource_type).inputs)
        component = (Cluster if resource_type == CLUSTER else ManagedNodeGroup)(name, inputs, options)
        return provider.ConstructResult(urn=component.urn, state=component.state)


def refuse_unknown(name: str, resource_type: str, inputs: Mapping[str, object], schema: Mapping[str, Property]) -> None:
    """Refuse inputs that the component of pulumi-eks does not have, or lacks.

    Raises:
        pulumi.RunError: one line for each.
    """
    problems = [f"{resource_type} {name}: {checking.unknown_name(key, schema)}" for key in inputs if key not in schema]
    problems += [
        f"{resource_type} {name}: missing required property {key}"
        for key, wanted in schema.items()
        if wanted.required and inputs.get(key) is None
    ]
    if problems:
        raise pulumi.RunError("\n".join(problems))


def serve_eks(engine: str) -> None:
    """Serve until the engine ends the process."""
    register_modules()
    # The SDK's server takes the engine's address from the command line.
    sys.argv = [sys.argv[0], engine]
    provider.main(EksStandIn(), [engine])
