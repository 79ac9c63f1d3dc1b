"""Run the whole program under Pulumi mocks and keep every registration that the engine would see."""

# Pulumi's mocks carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

import runpy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pulumi
from pulumi.runtime import mocks, rpc
from pulumi.runtime.config import set_all_config

ROOT = Path(__file__).parents[2]
SIGNATURE = "4dabf18193072939515e22adb298388d"
REFERENCE = "5cf8f73096256a8f31e491e813e4eb8e"
ZONE_IDS = {f"us-east-2{letter}": f"use2-az{number}" for number, letter in enumerate("abc", start=1)}

CONFIG: Mapping[str, str] = {
    "aws:region": "us-east-2",
    "efa-ray-train:gpuAvailabilityZone": "us-east-2b",
    "efa-ray-train:controlPlaneAvailabilityZones": '["us-east-2a", "us-east-2c"]',
    "efa-ray-train:apiAccess": "insideVpc",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """One resource as the program registered it."""

    urn: str
    type: str
    name: str
    inputs: Mapping[str, Any]
    parent: str
    depends_on: frozenset[str]
    property_depends_on: Mapping[str, frozenset[str]]
    deleted_with: str
    retain_on_delete: bool
    delete_before_replace: bool
    replace_on_changes: tuple[str, ...]


@dataclass(slots=True)
class World(mocks.Mocks):
    """What AWS and Kubernetes answer, and what they were asked for."""

    zones: Mapping[str, str] = field(default_factory=lambda: ZONE_IDS)
    offered: tuple[str, ...] = tuple(ZONE_IDS)
    job_status: Mapping[str, Any] = field(default_factory=lambda: {"jobStatus": "SUCCEEDED"})
    resources: dict[str, Registered] = field(default_factory=dict[str, Registered])
    outputs: dict[str, Any] = field(default_factory=dict[str, Any])

    def call(self, args: mocks.MockCallArgs) -> Any:
        answers: Mapping[str, Mapping[str, Any]] = {
            "aws:index/getPartition:getPartition": {"partition": "aws"},
            "aws:index/getCallerIdentity:getCallerIdentity": {"accountId": "123456789012"},
            "aws:index/getAvailabilityZones:getAvailabilityZones": {
                "names": list(self.zones),
                "zoneIds": list(self.zones.values()),
            },
            "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": {"locations": list(self.offered)},
            "aws:eks/getAddonVersion:getAddonVersion": {"version": "v1.0.0-eksbuild.1"},
        }
        return dict(answers[args.token])

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        inputs, identity = dict(args.inputs), f"{args.name}-id"
        computed: Mapping[str, Mapping[str, Any]] = {
            "aws:ec2/launchTemplate:LaunchTemplate": {"latestVersion": 1},
            "aws:ec2/placementGroup:PlacementGroup": {"name": f"{args.name}-0000000"},
            "aws:s3/bucket:Bucket": {"bucket": f"{args.name}-0000000"},
            "kubernetes:ray.io/v1:RayJob": {"status": dict(self.job_status)},
        }
        return identity, {
            "arn": f"arn:aws:mock:::{args.name}",
            "name": args.name,
            **inputs,
            **computed.get(args.typ, {}),
        }

    def of(self, kind: str) -> list[Registered]:
        """Return the resources whose type ends with `:kind`, components of ours left out."""
        ours = "efa-ray-train:"
        return [
            found
            for found in self.resources.values()
            if found.type.rpartition(":")[2] == kind and not found.type.startswith(ours)
        ]

    def one(self, kind: str, name: str = "") -> Registered:
        """Return the only resource of a kind, or the one with a name."""
        found = [resource for resource in self.of(kind) if name in ("", resource.name)]
        assert len(found) == 1, f"{kind} {name}: {[resource.name for resource in found]}"
        return found[0]

    def ancestors(self, urn: str) -> set[str]:
        """Return every URN that must stand before `urn`: the engine orders by dependencies and by parents."""
        seen: set[str] = set()
        pending = [urn]
        while pending:
            found = self.resources.get(pending.pop())
            above = {*found.depends_on, found.parent} - seen if found else set[str]()
            seen |= above
            pending += above
        return seen

    def deleted_with(self, found: Registered) -> str:
        """Return what a resource is deleted with: its own, or its parents', as the engine hands it down."""
        if found.deleted_with or found.parent not in self.resources:
            return found.deleted_with
        return self.deleted_with(self.resources[found.parent])


class Monitor(mocks.MockMonitor):
    """The mock monitor, which also keeps what a registration says beside its inputs."""

    mocks: World  # pyright: ignore[reportIncompatibleVariableOverride] - it is given no other

    def RegisterResource(self, request: Any) -> Any:
        response = super().RegisterResource(request)
        if request.type == "pulumi:pulumi:Stack":
            return response
        self.mocks.resources[response.urn] = Registered(
            urn=response.urn,
            type=request.type,
            name=request.name,
            inputs=rpc.deserialize_properties(request.object),
            parent=request.parent,
            depends_on=frozenset(request.dependencies),
            property_depends_on={key: frozenset(value.urns) for key, value in request.propertyDependencies.items()},
            deleted_with=request.deletedWith,
            retain_on_delete=request.retainOnDelete,
            delete_before_replace=request.deleteBeforeReplace,
            replace_on_changes=tuple(request.replaceOnChanges),
        )
        if request.type == "eks:index:Cluster":
            response.object.CopyFrom(self._cluster(response.urn, request.name))
        return response

    def _cluster(self, parent: str, name: str) -> Any:
        """Return the outputs of the EKS component, whose `eksCluster` is a reference to a resource."""
        urn = self.make_urn(parent, "aws:eks/cluster:Cluster", f"{name}-eksCluster")
        self.resources[urn] = mocks.MockMonitor.ResourceRegistration(urn, f"{name}-id", {"name": f"{name}-0000000"})
        outputs: dict[str, Any] = {
            "eksCluster": {SIGNATURE: REFERENCE, "urn": urn, "id": f"{name}-id"},
            "kubeconfigJson": '{"secret-in-kubeconfig": true}',
            "clusterSecurityGroupId": "sg-cluster",
        }
        return mocks._sync_await(  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage] - as the base class does
            rpc.serialize_properties(outputs, {})
        )


def run_program(
    config: Mapping[str, str] | None = None, *, stack: str = "dev", preview: bool = False, world: World | None = None
) -> World:
    """Run `__main__.py` with `config` over the default one and return what it registered.

    Raises what the program raises.
    """
    world = world or World()
    mocks.set_mocks(world, project="efa-ray-train", stack=stack, preview=preview, monitor=Monitor(world))
    set_all_config({**CONFIG, **(config or {})})

    @mocks.test
    def program() -> pulumi.Output[None]:
        # Without an engine there is no stack resource for `pulumi.export` to write to.
        exported: dict[str, pulumi.Input[Any]] = {}
        with patch.object(pulumi, "export", exported.__setitem__):
            runpy.run_path(str(ROOT / "__main__.py"))
        return pulumi.Output.all(**exported).apply(world.outputs.update)

    program()
    return world
