"""The `eks` stand-in without an engine: what it refuses, its add-on configuration and its kubeconfig."""

import json
from typing import Any

import pulumi
import pytest

from rehearsal.local_aws import kube
from rehearsal.providers.eks import addons, cluster_refusals, node_group
from rehearsal.providers.eks.kubeconfig import kubeconfig
from rehearsal.providers.eks.serving import CLUSTER, NODE_GROUP, EksStandIn, refuse_unknown
from rehearsal.providers.sdk_schema import resource_schema

GOOD: dict[str, Any] = {
    "authenticationMode": "API",
    "skipDefaultNodeGroup": True,
    "vpcId": "vpc-1",
    "privateSubnetIds": ["a", "b"],
}
NODES: dict[str, Any] = {"cluster": "c", "nodeRoleArn": "r"}


def test_good_inputs_pass() -> None:
    cluster_refusals.refuse("train", GOOD)
    node_group.refuse("gpu", NODES)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"instanceRoles": ["r"]}, "The 'instanceRoles' property does not support non-empty values"),
        ({"roleMappings": ["r"]}, "The 'roleMappings' property does not support non-empty values"),
        (
            {"authenticationMode": "BOTH"},
            "Invalid value for authenticationMode: BOTH. Allowed values are: CONFIG_MAP, API_AND_CONFIG_MAP, API.",
        ),
        ({"authenticationMode": "CONFIG_MAP"}, "the stand-in has authenticationMode API alone, found CONFIG_MAP"),
        ({"subnetIds": ["a"]}, "mutually exclusive"),
        ({"skipDefaultNodeGroup": False}, "no default node group; set skipDefaultNodeGroup"),
        ({"vpcId": None}, "give vpcId and subnets"),
        ({"fargate": True}, "fargate: the stand-in does not have Fargate profiles"),
        ({"createOidcProvider": True}, "createOidcProvider"),
        (
            {"endpointPublicAccess": False, "publicAccessCidrs": ["1.2.3.4/32"]},
            "can only be set when `endpointPublicAccess` is true",
        ),
    ],
)
def test_cluster_that_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(pulumi.RunError) as caught:
        cluster_refusals.refuse("train", {**GOOD, **change})
    assert words in str(caught.value)
    assert str(caught.value).startswith("eks:index:Cluster train: ")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nodeRoleArn": None}, "An IAM role, or role ARN must be provided"),
        ({"nodeRole": "r"}, "You cannot specify both nodeRole and nodeRoleArn"),
        ({"launchTemplate": {"id": "l"}, "enableEfaSupport": True}, "you cannot provide any of kubeletExtraArgs"),
        ({"enableEfaSupport": True}, "enableEfaSupport: the stand-in writes no launch template of its own"),
        ({"operatingSystem": "AL2023"}, "operatingSystem: the stand-in"),
    ],
)
def test_node_group_that_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(pulumi.RunError) as caught:
        node_group.refuse("gpu", {**NODES, **change})
    assert words in str(caught.value)


def test_unknown_and_missing_inputs_of_a_component_are_all_named() -> None:
    with pytest.raises(pulumi.RunError) as caught:
        refuse_unknown("gpu", NODE_GROUP, {"clustr": "c", "labels": {}}, resource_schema(NODE_GROUP).inputs)
    first, second = str(caught.value).splitlines()
    assert "unknown property clustr; did you mean cluster? (allowed: " in first
    assert second == f"{NODE_GROUP} gpu: missing required property cluster"


def test_unknown_component() -> None:
    with pytest.raises(pulumi.RunError, match=r"has no component eks:index:NodeGroupV2; it has eks:index:Cluster and"):
        EksStandIn().construct("x", "eks:index:NodeGroupV2", {}, None)
    assert CLUSTER == "eks:index:Cluster"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {"WARM_ENI_TARGET": "1", "ENABLE_POD_ENI": "false", "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG": "false"}),
        ({"enablePrefixDelegation": True}, {"ENABLE_PREFIX_DELEGATION": "true"}),
        ({"warmPrefixTarget": 2.0, "eniMtu": 1500}, {"WARM_PREFIX_TARGET": "2", "AWS_VPC_ENI_MTU": "1500"}),
        ({"configurationValues": {"env": {"WARM_ENI_TARGET": "9"}}}, {"WARM_ENI_TARGET": "9"}),
    ],
)
def test_environment_of_the_vpc_cni(settings: dict[str, Any], expected: dict[str, str]) -> None:
    environment = addons.cni_configuration(settings)["env"]
    assert {key: environment[key] for key in expected} == expected


def test_network_policy_switch_of_the_vpc_cni() -> None:
    assert "enableNetworkPolicy" not in addons.cni_configuration({})
    assert addons.cni_configuration({"enableNetworkPolicy": True})["enableNetworkPolicy"] == "true"
    given = {"enableNetworkPolicy": True, "configurationValues": {"enableNetworkPolicy": "false"}}
    assert addons.cni_configuration(given)["enableNetworkPolicy"] == "false"


def test_kubeconfig_asks_the_aws_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (kube.FILE, kube.ENDPOINT):
        monkeypatch.delenv(name, raising=False)
    made = kubeconfig("train", "https://x", "Q0E=", "us-east-2", profile="team", role="arn:r")
    assert made["clusters"][0]["cluster"] == {"server": "https://x", "certificate-authority-data": "Q0E="}
    user = made["users"][0]["user"]["exec"]
    assert user["command"] == "aws"
    assert " ".join(user["args"]) == (
        "--region us-east-2 eks get-token --cluster-name train --output json --role arn:r --profile team"
    )
    assert json.loads(user["env"][0]["value"])["apiVersion"] == "client.authentication.k8s.io/v1beta1"


def test_kubeconfig_of_a_local_cluster_has_its_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kube.FILE, raising=False)
    monkeypatch.setenv(kube.ENDPOINT, "https://127.0.0.1:6443")
    monkeypatch.setenv(kube.TOKEN, "secret")
    made = kubeconfig("train", "https://127.0.0.1:6443", "", "us-east-2", profile=None, role=None)
    assert made["users"][0]["user"] == {"token": "secret"}
    assert made["clusters"][0]["cluster"] == {"server": "https://127.0.0.1:6443"}
