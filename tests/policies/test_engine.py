"""The bridge, fed with the SDK's own objects made by the SDK's own deserializer, as its server makes them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol, cast

import grpc
import pulumi
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import analyzer_pb2_grpc
from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyCustomTimeouts,
    PolicyResource,
    PolicyResourceOptions,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy import proxy as sdk
from pulumi_policy.deserialize import deserialize_properties
from pulumi_policy.proxy import unknown_checking_proxy

from policies.engine import NOT_CHECKED, NOT_CHECKED_STACK, Session, merge, policies, to_resource, to_value
from policies.pack import RULES
from policies.rules import ResourceRule
from policies.values import UNKNOWN, Value, at
from tests.policies.good_stack import good_stack, said

ROOT = Path(__file__).resolve().parents[2]
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "value": "s3cret"}
ASSET = {"4dabf18193072939515e22adb298388d": "c44067f5952c0a294b673a41bacd8c17", "text": "words"}
UNKNOWNS = [
    sdk.UNKNOWN_BOOLEAN_VALUE,
    sdk.UNKNOWN_NUMBER_VALUE,
    sdk.UNKNOWN_STRING_VALUE,
    sdk.UNKNOWN_ARRAY_VALUE,
    sdk.UNKNOWN_ASSET_VALUE,
    sdk.UNKNOWN_ARCHIVE_VALUE,
    sdk.UNKNOWN_OBJECT_VALUE,
]


def options(parent: str | None = None) -> PolicyResourceOptions:
    return PolicyResourceOptions(False, [], None, [], PolicyCustomTimeouts(0, 0, 0), [], parent)


def wire(properties: Mapping[str, object]) -> Mapping[str, object]:
    """Do with properties what the SDK's server does between the wire and a policy."""
    return unknown_checking_proxy(deserialize_properties(dict(properties)))


def sdk_resource(
    name: str, type_: str, properties: Mapping[str, object], **sources: list[PolicyResource]
) -> PolicyResource:
    urn = f"urn:pulumi:production::efa-ray-train::{type_}::{name}"
    everything = [source for several in sources.values() for source in several]
    return PolicyResource(type_, wire(properties), urn, name, options(), None, None, everything, dict(sources))


@pytest.mark.parametrize("unknown", UNKNOWNS)
def test_each_kind_of_unknown_is_kept_where_it_stands(unknown: str) -> None:
    with pytest.raises(sdk.UnknownValueError):
        wire({"a": unknown})["a"]
    properties = {"a": unknown, "b": {"c": [unknown, 1.0, "x"], "d": True}, "e": None}
    assert to_value(wire(properties)) == {
        "a": UNKNOWN,
        "b": {"c": [UNKNOWN, 1, "x"], "d": True},
        "e": None,
    }


def test_secrets_assets_and_fractions_are_read() -> None:
    assert to_value(wire({"secret": SECRET, "asset": ASSET, "half": 0.5})) == {
        "secret": "s3cret",
        "asset": "StringAsset",
        "half": 0.5,
    }


def test_what_no_property_can_be_is_refused() -> None:
    with pytest.raises(TypeError, match="found set; allowed: what Pulumi's policy SDK deserializes to"):
        to_value({"a": {1, 2}})


def test_inputs_count_and_outputs_fill_in() -> None:
    inputs = {"a": 1, "b": {"c": UNKNOWN, "d": [1]}, "e": UNKNOWN}
    outputs = {"a": 2, "b": {"c": 3, "d": [1, 2], "f": 4}, "id": "x", "e": None}
    assert merge(inputs, outputs) == {"a": 1, "b": {"c": 3, "d": [1], "f": 4}, "id": "x", "e": UNKNOWN}


@pytest.mark.parametrize("computed", [UNKNOWN, [UNKNOWN], {"deeper": UNKNOWN}])
def test_what_a_provider_has_yet_to_compute_does_not_make_an_absent_input_unknown(computed: Value) -> None:
    merged = merge({"amiType": "x"}, {"amiType": "x", "left out": computed, "id": "n"})
    assert at(merged, "left out", "deeper") is None
    assert at(merged, "left out") in (None, {"deeper": None})
    assert (at(merged, "amiType"), at(merged, "id")) == ("x", "n")


def test_a_resource_that_was_only_read_is_judged_by_its_outputs() -> None:
    read = sdk_resource(
        "read", "aws:ec2/subnet:Subnet", {"availabilityZone": sdk.UNKNOWN_STRING_VALUE, "id": "subnet-1"}
    )
    assert to_resource(read, None).props == {"availabilityZone": UNKNOWN, "id": "subnet-1"}
    assert to_resource(read, {}).props == {"availabilityZone": None, "id": "subnet-1"}


def test_a_resource_keeps_its_sources_and_its_parent() -> None:
    subnet = sdk_resource("subnet", "aws:ec2/subnet:Subnet", {"id": sdk.UNKNOWN_STRING_VALUE})
    group = sdk_resource(
        "gpu", "aws:eks/nodeGroup:NodeGroup", {"subnetIds": [sdk.UNKNOWN_STRING_VALUE]}, subnetIds=[subnet]
    )
    group.parent = subnet
    record = to_resource(group, None)
    assert (record.type, record.name, record.stack) == ("aws:eks/nodeGroup:NodeGroup", "gpu", "production")
    assert record.props == {"subnetIds": [UNKNOWN]}
    assert record.parent == subnet.urn
    assert record.dependencies == (subnet.urn,)
    assert record.property_dependencies == {"subnetIds": (subnet.urn,)}


class Reports:
    """What policies report: policy, level of the policy, message, URN."""

    def __init__(self) -> None:
        self.all: list[tuple[str, EnforcementLevel | None, str, str | None]] = []

    def of(self, policy: Policy) -> "Reporter":
        return Reporter(self, policy)


class Reporter:
    def __init__(self, reports: Reports, policy: Policy) -> None:
        self._reports, self._policy = reports, policy

    def __call__(self, message: str, urn: str | None = None) -> None:
        self._reports.all.append((self._policy.name, self._policy.enforcement_level, message, urn))


def judge(policy: object, args: object, report: "Reporter") -> None:
    """Call a policy; the SDK's own signature has no types for what it awaits."""
    cast("Callable[[object, Reporter], None]", getattr(policy, "validate"))(args, report)  # noqa: B009


def preview(resources: list[tuple[PolicyResource, Mapping[str, object]]]) -> Reports:
    """Run all policies as an engine does: each resource's inputs first, then the stack with its outputs."""
    pack, reports = policies(RULES), Reports()
    for resource, inputs in resources:
        args = ResourceValidationArgs(
            resource.resource_type, wire(inputs), resource.urn, resource.name, options(), None
        )
        for policy in pack:
            if isinstance(policy, ResourceValidationPolicy):
                judge(policy, args, reports.of(policy))
    for policy in pack:
        if isinstance(policy, StackValidationPolicy):
            judge(policy, StackValidationArgs([resource for resource, _ in resources]), reports.of(policy))
    return reports


WORKERS: dict[str, object] = {
    "spec": {
        "headGroupSpec": {"rayStartParams": {"num-cpus": "0"}, "template": {"spec": {"containers": []}}},
        "workerGroupSpecs": [
            {
                "groupName": "gpu",
                "replicas": 2.0,
                "template": {
                    "spec": {"containers": [{"resources": {"limits": {"cpu": 1, "memory": 1, "nvidia.com/gpu": 4.0}}}]}
                },
            }
        ],
    }
}
GROUP = {
    "instanceTypes": ["g6.12xlarge"],
    "amiType": "AL2023_x86_64_NVIDIA",
    "subnetIds": [sdk.UNKNOWN_STRING_VALUE],
    "scalingConfig": {"maxSize": 2.0},
}


def test_inputs_are_judged_where_the_first_preview_has_no_outputs() -> None:
    subnet = {"availabilityZone": "us-east-2b", "vpcId": sdk.UNKNOWN_STRING_VALUE}
    gpu_subnet = sdk_resource("subnet", "aws:ec2/subnet:Subnet", subnet)
    reports = preview(
        [
            (gpu_subnet, subnet),
            (sdk_resource("gpu", "aws:eks/nodeGroup:NodeGroup", GROUP, subnetIds=[gpu_subnet]), GROUP),
            # The provider is not configured yet: no outputs at all.
            (sdk_resource("ray", "kubernetes:ray.io/v1:RayCluster", {}), WORKERS),
        ]
    )
    said = {(name, level, urn.rpartition("::")[2]) for name, level, _, urn in reports.all if urn}
    assert ("one-gpu-zone", EnforcementLevel.MANDATORY, "ray") in said
    assert ("image-digest", EnforcementLevel.MANDATORY, "ray") in said


def test_a_missing_value_is_reported_by_the_advisory_policies_only() -> None:
    cluster: dict[str, object] = {"vpcConfig": sdk.UNKNOWN_OBJECT_VALUE}
    group = {**GROUP, "subnetIds": sdk.UNKNOWN_ARRAY_VALUE}
    reports = preview(
        [
            (sdk_resource("cluster", "aws:eks/cluster:Cluster", cluster), cluster),
            (sdk_resource("gpu", "aws:eks/nodeGroup:NodeGroup", group), group),
        ]
    )
    assert {(name, level) for name, level, _, _ in reports.all} == {
        (NOT_CHECKED, EnforcementLevel.ADVISORY),
        (NOT_CHECKED_STACK, EnforcementLevel.ADVISORY),
    }
    assert [message for name, _, message, _ in reports.all if name == NOT_CHECKED] == [
        "api-endpoint: not checked yet: vpcConfig.endpointPublicAccess or publicAccessCidrs is known only at up; "
        "then checked: the API is not open to all"
    ]


def test_each_rule_is_one_policy_of_its_level() -> None:
    pack = {policy.name: policy for policy in policies(RULES)}
    assert len(pack) == len(RULES) + 2
    for rule in RULES:
        kind = ResourceValidationPolicy if isinstance(rule, ResourceRule) else StackValidationPolicy
        assert type(pack[rule.id]) is kind
        expected = EnforcementLevel.ADVISORY if rule.advisory else EnforcementLevel.MANDATORY
        assert pack[rule.id].enforcement_level is expected
        assert pack[rule.id].description == rule.what


def test_inputs_seen_again_replace_the_older_ones() -> None:
    session, urn = Session(), "urn:pulumi:production::efa-ray-train::t::n"
    for size in (1.0, 2.0):
        session.resource(ResourceValidationArgs("t", wire({"size": size}), urn, "n", options(), None))
    assert session.inputs[urn] == {"size": 2}


def test_secrets_are_never_in_a_message() -> None:
    stack = good_stack()
    stack.edit("ray", "spec.headGroupSpec.template.spec.containers.0.env", [{"name": "TOKEN", "value": "s3cret"}])
    stack.edit("ray", "spec.headGroupSpec.template.spec.containers.0.image", "ray:latest")
    stack.edit("ray", "spec.headGroupSpec.serviceType", "NodePort")
    assert len(said(stack)) == 2
    assert not any("s3cret" in one.message for one in said(stack))


def test_the_pack_is_imported_without_starting() -> None:
    code = "import policies.pack, policies.engine; print('imported')"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == "imported\n"


def test_rules_need_no_policy_sdk() -> None:
    code = "import sys, policies.pack; print('pulumi_policy' in sys.modules, 'pulumi' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == "False False\n"


def test_the_pack_serves_the_engine_from_any_directory(tmp_path: Path) -> None:
    command = [sys.executable, "-u", "-m", "pulumi.policy", "127.0.0.1:1", str(ROOT / "policies")]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as pack:
        try:
            assert pack.stdout is not None
            port = int(pack.stdout.readline())
            assert names_served(port) == {policy.name for policy in policies(RULES)}
        finally:
            pack.kill()


class PolicyInfo(Protocol):
    name: str


class AnalyzerInfo(Protocol):
    name: str
    policies: Iterable[PolicyInfo]


def names_served(port: int) -> set[str]:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        ask = cast(
            "Callable[..., AnalyzerInfo]",
            analyzer_pb2_grpc.AnalyzerStub(channel).GetAnalyzerInfo,  # pyright: ignore[reportUnknownMemberType]
        )
        info = ask(empty_pb2.Empty(), timeout=30)
    assert info.name == "efa-ray-train"
    return {policy.name for policy in info.policies}


def test_an_archive_is_no_mystery() -> None:
    assert to_value({"code": pulumi.FileArchive("somewhere")}) == {"code": "FileArchive"}
