"""Nodes as EKS and the kubelet would register them: from node groups of the local AWS, devices by the plugins that run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from lightkube.resources.core_v1 import Node

from infra.instances import allocatable as estimate
from infra.instances import instance
from rehearsal.kubernetes import Body, Kubernetes, as_document, labels_of
from rehearsal.local_aws.server import serving
from rehearsal.nodes.devices import EFA, GPU, RunningContainer, allocatable, attached, registered
from rehearsal.nodes.fleet import Fleet, Instance
from rehearsal.nodes.node import node_object, node_status
from rehearsal.nodes.registrar import Registrar
from rehearsal.scheduling import Taint
from tests.rehearsal.local_aws_support import Aws

GPU_INSTANCE = Instance(
    instance_id="i-1",
    instance_type="g6.12xlarge",
    private_ip="10.0.3.7",
    region="us-east-2",
    zone="us-east-2b",
    zone_id="use2-az2",
    node_group="gpu",
    capacity_type="ON_DEMAND",
    efa_interfaces=1,
    labels={"efa-ray-train/role": "gpu"},
    taints=(Taint(key="nvidia.com/gpu", value="true"),),
)


def test_a_node_has_what_eks_gives_it() -> None:
    node = node_object(GPU_INSTANCE)
    assert node.metadata is not None
    assert node.spec is not None
    assert node.metadata.name == "ip-10-0-3-7.us-east-2.compute.internal"
    assert node.spec.providerID == "aws:///us-east-2b/i-1"
    labels = labels_of(node.metadata)
    assert {
        "topology.kubernetes.io/zone": "us-east-2b",
        "topology.kubernetes.io/region": "us-east-2",
        "topology.k8s.aws/zone-id": "use2-az2",
        "node.kubernetes.io/instance-type": "g6.12xlarge",
        "eks.amazonaws.com/nodegroup": "gpu",
        "eks.amazonaws.com/capacityType": "ON_DEMAND",
        "efa-ray-train/role": "gpu",
        "kubernetes.io/hostname": "ip-10-0-3-7.us-east-2.compute.internal",
    }.items() <= labels.items()
    assert [(taint.key, taint.value, taint.effect) for taint in node.spec.taints or []] == [
        ("nvidia.com/gpu", "true", "NoSchedule")
    ]


def test_a_node_offers_what_the_settings_check_counts_with_and_no_device_yet() -> None:
    facts, status = instance("g6.12xlarge"), as_document(node_status(GPU_INSTANCE))
    room = estimate(facts)
    assert status["allocatable"] == {
        "cpu": f"{room.cpu_millis}m",
        "memory": f"{room.memory_mib}Mi",
        "pods": str(facts.max_pods),
    }
    assert status["capacity"] == {"cpu": "48", "memory": "192Gi", "pods": str(facts.max_pods)}


@pytest.mark.parametrize(
    ("instance_type", "efa_interfaces", "devices"),
    [
        ("g6.12xlarge", 1, {GPU: 4, EFA: 1}),
        ("g6.12xlarge", 0, {GPU: 4}),
        ("m7i.2xlarge", 0, {}),
        ("p5.48xlarge", 32, {GPU: 8, EFA: 32}),
    ],
)
def test_devices_of_an_instance(instance_type: str, efa_interfaces: int, devices: dict[str, int]) -> None:
    from dataclasses import replace

    assert attached(replace(GPU_INSTANCE, instance_type=instance_type, efa_interfaces=efa_interfaces)) == devices


def test_plugins_are_known_by_their_image() -> None:
    found = registered(
        [
            RunningContainer(node="a", image="nvcr.io/nvidia/k8s-device-plugin:v0.20.0"),
            RunningContainer(
                node="a", image="602.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin@sha256:0"
            ),
            RunningContainer(node="b", image="localhost:5000/k8s-device-plugin"),
            RunningContainer(node="c", image="example/k8s-device-plugin-tests:1"),
        ]
    )
    assert found == {"a": {GPU, EFA}, "b": {GPU}}


def test_a_device_is_allocatable_while_its_plugin_runs() -> None:
    devices = {GPU: 4, EFA: 1}
    assert allocatable(devices, frozenset(), ()) == {}
    assert allocatable(devices, frozenset({GPU}), ()) == {GPU: "4"}
    # The plugin has gone: the kubelet keeps the resource, at nothing.
    assert allocatable(devices, frozenset({EFA}), ["cpu", GPU, EFA]) == {GPU: "0", EFA: "1"}
    # A plugin on a node without the device offers nothing.
    assert allocatable({}, frozenset({GPU}), ()) == {}


def test_instances_follow_their_node_group() -> None:
    with serving() as local:
        # The account that a client without a header of its own is in.
        aws = Aws(local.endpoint)
        aws.account = 123456789012
        aws.reset()
        fleet = Fleet(local.endpoint, "us-east-2")
        assert fleet.clusters() == fleet.instances([]) == []
        _, subnets = aws.network("abc")
        aws.cluster(subnets)
        interfaces = [{"DeviceIndex": 0, "NetworkCardIndex": 0, "InterfaceType": "efa"}]
        template = aws.template(NetworkInterfaces=interfaces)
        aws.eks.create_nodegroup(
            clusterName="train",
            nodegroupName="gpu",
            nodeRole="arn:aws:iam::123456789012:role/node",
            subnets=[subnets[1]],
            launchTemplate={"id": template, "version": "1"},
            scalingConfig={"minSize": 2, "maxSize": 3, "desiredSize": 2},
            labels={"efa-ray-train/role": "gpu"},
            taints=[{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}],
        )
        found = fleet.instances(fleet.clusters())
        assert len(found) == 2
        assert {(one.instance_type, one.zone, one.node_group, one.efa_interfaces) for one in found} == {
            ("g6.12xlarge", "us-east-2b", "gpu", 1)
        }
        assert found[0].labels == {"efa-ray-train/role": "gpu"}
        assert found[0].taints == (Taint(key="nvidia.com/gpu", value="true", effect="NoSchedule"),)
        assert found[0].zone_id
        aws.eks.update_nodegroup_config(
            clusterName="train", nodegroupName="gpu", scalingConfig={"minSize": 2, "maxSize": 3, "desiredSize": 3}
        )
        grown = fleet.instances(fleet.clusters())
        assert {one.instance_id for one in found} < {one.instance_id for one in grown}
        aws.eks.delete_nodegroup(clusterName="train", nodegroupName="gpu")
        assert fleet.instances(fleet.clusters()) == []
        assert fleet.clusters() == ["train"]


class HeldNodes(Kubernetes):
    """A cluster of nodes alone, with the API server's way of merging."""

    def __init__(self) -> None:
        self.held: dict[str, Any] = {}

    def nodes(self) -> list[Node]:
        return [cast(Any, Node).from_dict(node) for node in self.held.values()]

    def create_node(self, node: Node) -> None:
        assert node.metadata is not None
        self.held[node.metadata.name or ""] = as_document(node)

    def patch_node(self, name: str, body: Body) -> None:
        change: Any = body
        labels = {**self.held[name]["metadata"]["labels"], **change["metadata"]["labels"]}
        self.held[name]["metadata"]["labels"] = {key: value for key, value in labels.items() if value is not None}
        self.held[name]["spec"]["taints"] = change["spec"]["taints"]

    def patch_node_status(self, name: str, status: Body) -> None:
        self.held[name]["status"] = {**self.held[name].get("status", {}), **status}

    def delete_node(self, name: str) -> None:
        del self.held[name]


def test_labels_and_taints_of_a_group_that_changes_are_followed_and_those_of_others_stay() -> None:
    cluster = HeldNodes()
    registrar = Registrar(cluster)
    registrar.sync([GPU_INSTANCE], [])
    node = cluster.held[GPU_INSTANCE.node_name]
    node["metadata"]["labels"]["set-by/hand"] = "yes"
    node["spec"]["taints"].append({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"})

    changed = replace(GPU_INSTANCE, labels={"team": "a"}, taints=(Taint(key="reserved", effect="NoExecute"),))
    registrar.sync([changed], [])
    labels = node["metadata"]["labels"]
    assert (labels["team"], labels["set-by/hand"]) == ("a", "yes")
    assert "efa-ray-train/role" not in labels
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["node.kubernetes.io/unreachable", "reserved"]

    registrar.sync([], [])
    assert cluster.held == {}
