"""A small stack in which every rule is content, as a preview sees it (ids unknown) and as an update sees it (ids known)."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import cast

from policies import tokens
from policies.graph import Graph, Resource
from policies.pack import RULES
from policies.rules import findings
from policies.values import UNKNOWN, Value

ZONE = "us-east-2b"
DIGEST = "public.ecr.aws/deep-learning-containers/ray@sha256:" + "0123456789abcdef" * 4
KUBE = "kubernetes:core/v1:"
SERVICE = f"{KUBE}Service"


@dataclass
class Stack:
    """Resources by name, open to change before they become a graph."""

    at_preview: bool = True
    name: str = "production"
    resources: dict[str, Resource] = field(default_factory=dict[str, Resource])

    def urn(self, name: str) -> str:
        """Return the URN of a resource of this stack."""
        return f"urn:pulumi:{self.name}::efa-ray-train::thing::{name}"

    def add(self, name: str, type_: str, props: Mapping[str, Value], **sources: str | list[str]) -> None:
        """Add a resource; `sources` names, for a property, the resources that its value comes from."""
        by_property = {
            key: tuple(self.urn(source) for source in ([names] if isinstance(names, str) else names))
            for key, names in sources.items()
        }
        self.resources[name] = Resource(
            type=type_,
            urn=self.urn(name),
            name=name,
            props={**props} if self.at_preview else {"id": f"id-{name}", **props},
            dependencies=tuple(sorted({urn for urns in by_property.values() for urn in urns})),
            property_dependencies=by_property,
        )

    def id(self, name: str) -> Value:
        """Return the provider's id of a resource, unknown at preview."""
        return UNKNOWN if self.at_preview else f"id-{name}"

    def edit(self, name: str, path: str, value: Value) -> None:
        """Set what is at `path` (dotted, numbers for list elements) of a resource; None removes it."""
        resource = self.resources[name]
        props = cast("dict[str, Value]", deepcopy(resource.props))
        *steps, last = path.split(".")
        target: object = props
        for step in steps:
            target = (
                cast("list[object]", target)[int(step)]
                if isinstance(target, list)
                else cast("dict[str, object]", target).setdefault(step, {})
            )
        if isinstance(target, list):
            cast("list[object]", target)[int(last)] = value
        elif value is None:
            del cast("dict[str, object]", target)[last]
        else:
            cast("dict[str, object]", target)[last] = value
        self.resources[name] = replace(resource, props=props)

    def sources(self, name: str, **sources: list[str]) -> None:
        """Say anew where properties of a resource come from."""
        added = {key: tuple(self.urn(source) for source in names) for key, names in sources.items()}
        resource = self.resources[name]
        self.resources[name] = replace(resource, property_dependencies={**resource.property_dependencies, **added})

    def graph(self) -> Graph:
        """Return the resources as a graph."""
        return Graph(tuple(self.resources.values()))


def good_stack(*, at_preview: bool = True, name: str = "production", instance_type: str = "g6.12xlarge") -> Stack:
    """Build the stack in which every rule is content."""
    stack = Stack(at_preview=at_preview, name=name)
    _network(stack)
    _cluster(stack)
    _gpu_nodes(stack, instance_type)
    _workloads(stack)
    return stack


def _network(stack: Stack) -> None:
    vpc = {"vpcId": stack.id("vpc")}
    stack.add("vpc", "aws:ec2/vpc:Vpc", {"cidrBlock": "10.0.0.0/16"})
    stack.add("gateway", tokens.INTERNET_GATEWAY, vpc, vpcId="vpc")
    for subnet, zone in (("gpu", ZONE), ("private-a", "us-east-2a"), ("private-c", "us-east-2c")):
        stack.add(f"subnet-{subnet}", tokens.SUBNET, {**vpc, "availabilityZone": zone}, vpcId="vpc")
        stack.add(f"table-{subnet}", tokens.ROUTE_TABLE, vpc, vpcId="vpc")
        stack.add(
            f"route-{subnet}",
            tokens.ROUTE,
            {"routeTableId": stack.id(f"table-{subnet}"), "natGatewayId": stack.id("nat")},
            routeTableId=f"table-{subnet}",
            natGatewayId="nat",
        )
        stack.add(
            f"association-{subnet}",
            tokens.ROUTE_TABLE_ASSOCIATION,
            {"routeTableId": stack.id(f"table-{subnet}"), "subnetId": stack.id(f"subnet-{subnet}")},
            routeTableId=f"table-{subnet}",
            subnetId=f"subnet-{subnet}",
        )
    stack.add(
        "subnet-public",
        tokens.SUBNET,
        {**vpc, "availabilityZone": "us-east-2a", "mapPublicIpOnLaunch": True},
        vpcId="vpc",
    )
    stack.add("nat", "aws:ec2/natGateway:NatGateway", {"subnetId": stack.id("subnet-public")}, subnetId="subnet-public")


def _cluster(stack: Stack) -> None:
    cluster_group = {} if stack.at_preview else {"clusterSecurityGroupId": "sg-cluster"}
    settings: dict[str, Value] = {
        "endpointPublicAccess": True,
        "publicAccessCidrs": ["203.0.113.0/24"],
        "subnetIds": [stack.id("subnet-private-a"), stack.id("subnet-private-c")],
        **cluster_group,
    }
    stack.add("cluster", tokens.CLUSTER, {"vpcConfig": settings}, vpcConfig=["subnet-private-a", "subnet-private-c"])
    stack.add(
        "system-template", tokens.LAUNCH_TEMPLATE, {"instanceType": "m7i.2xlarge", "metadataOptions": _metadata()}
    )
    stack.add(
        "system",
        tokens.NODE_GROUP,
        {
            "amiType": "AL2023_x86_64_STANDARD",
            "launchTemplate": {"id": stack.id("system-template"), "version": "1"},
            "subnetIds": [stack.id("subnet-private-a"), stack.id("subnet-private-c")],
            "scalingConfig": {"desiredSize": 1, "maxSize": 1, "minSize": 0},
        },
        launchTemplate="system-template",
        subnetIds=["subnet-private-a", "subnet-private-c"],
    )


def _gpu_nodes(stack: Stack, instance_type: str) -> None:
    tags: dict[str, Value] = {tokens.TAG_ZONE: ZONE, tokens.TAG_EFA: "true", "efa-ray-train:placement-group": "create"}
    stack.add("efa", tokens.SECURITY_GROUP, {"vpcId": stack.id("vpc"), "tags": {tokens.TAG_ROLE: "efa"}}, vpcId="vpc")
    for way, type_ in (("ingress", tokens.INGRESS_RULE), ("egress", tokens.EGRESS_RULE)):
        stack.add(
            f"efa-{way}",
            type_,
            {
                "securityGroupId": stack.id("efa"),
                "referencedSecurityGroupId": stack.id("efa"),
                "ipProtocol": "-1",
            },
            securityGroupId="efa",
            referencedSecurityGroupId="efa",
        )
    stack.add("group", tokens.PLACEMENT_GROUP, {"strategy": "cluster", "tags": {tokens.TAG_ZONE: ZONE}})
    interface: dict[str, Value] = {
        "networkCardIndex": 0,
        "deviceIndex": 0,
        "interfaceType": "efa",
        "associatePublicIpAddress": "false",
        "securityGroups": [UNKNOWN if stack.at_preview else "sg-cluster", stack.id("efa")],
    }
    stack.add(
        "template",
        tokens.LAUNCH_TEMPLATE,
        {
            "instanceType": instance_type,
            "metadataOptions": _metadata(),
            "networkInterfaces": [interface],
            "placement": {"groupName": stack.id("group")},
            "tags": tags,
        },
        networkInterfaces=["cluster", "efa"],
        placement="group",
    )
    stack.add(
        "gpu",
        tokens.NODE_GROUP,
        {
            "amiType": "AL2023_x86_64_NVIDIA",
            "launchTemplate": {"id": stack.id("template"), "version": UNKNOWN if stack.at_preview else "1"},
            "subnetIds": [stack.id("subnet-gpu")],
            "scalingConfig": {"desiredSize": 2, "maxSize": 2, "minSize": 0},
            "updateConfig": {"maxUnavailable": 1, "updateStrategy": "MINIMAL"},
            "tags": tags,
        },
        launchTemplate="template",
        subnetIds="subnet-gpu",
    )


def _metadata() -> Value:
    return {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1}


def _workloads(stack: Stack) -> None:
    head = {"cpu": "4", "memory": "16Gi"}
    worker = {"cpu": "40", "memory": "160Gi", tokens.GPU: 4, tokens.EFA: 1}
    stack.add(
        "ray",
        tokens.RAY_CLUSTER,
        {
            "metadata": {"name": "ray", "namespace": "ray-train"},
            "spec": {
                "headGroupSpec": {
                    "serviceType": "ClusterIP",
                    "rayStartParams": {"num-cpus": "0", "dashboard-host": "0.0.0.0"},
                    "template": {"spec": {"containers": [_container("head", head)]}},
                },
                "workerGroupSpecs": [
                    {
                        "groupName": "gpu",
                        "replicas": 2,
                        "rayStartParams": {"num-gpus": "4"},
                        "template": {
                            "spec": {
                                "nodeSelector": {tokens.LABEL_ZONE: ZONE},
                                "containers": [_container("worker", worker)],
                            }
                        },
                    }
                ],
            },
        },
    )
    stack.add("operator", tokens.HELM_RELEASE, {"chart": "kuberay-operator", "values": {"resources": {"cpu": 1}}})
    stack.add("service", SERVICE, {"spec": {"type": "ClusterIP"}})


def _container(name: str, amounts: Mapping[str, Value]) -> Value:
    return {"name": name, "image": DIGEST, "resources": {"requests": dict(amounts), "limits": dict(amounts)}}


@dataclass(frozen=True)
class Said:
    """What a rule said, and of which resource."""

    rule: str
    level: str
    resource: str
    message: str


def said(stack: Stack) -> list[Said]:
    """Run the whole pack over a stack."""
    return [
        Said(rule.id, finding.level, finding.resource.name, finding.message)
        for rule, finding in findings(RULES, stack.graph())
    ]


def found(rule: str, resource: str, message: str) -> list[Said]:
    """Expect one violation and nothing else, so that each fault is caught by the rule that owns it."""
    return [Said(rule, "violation", resource, message)]
