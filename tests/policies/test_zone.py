from typing import Final

import pytest

from policies import tokens
from policies.values import UNKNOWN, Value
from tests.policies.good_stack import ZONE, Said, Stack, found, good_stack, said

ALLOWED: Final = (
    "one Availability Zone for subnets, placement group, reservation and workers, that of gpuAvailabilityZone"
)
WHY: Final = "EFA traffic does not leave its zone, and instances of a cluster placement group start in one zone only"
THEN: Final = f"is known only at up; then checked: {ALLOWED}"


TWO_ZONES_FIX: Final = (
    "fix: give the group one subnet, that of gpuAvailabilityZone, and set that to the reservation's zone"
)
TWO_ZONES_WHY: Final = f"why: {WHY}: the first create may work, every later update then fails"


def two_zones(listed: str) -> list[Said]:
    tied = f"found node group gpu tied to 2 Availability Zones: {listed}"
    return found("one-gpu-zone", "gpu", f"{tied}; allowed: {ALLOWED}; {TWO_ZONES_WHY}; {TWO_ZONES_FIX}")


GROUP_TAG: Final = f"tag {tokens.TAG_ZONE} of node group gpu"
TEMPLATE_TAG: Final = f"tag {tokens.TAG_ZONE} of launch template template"
PLACEMENT_TAG: Final = f"tag {tokens.TAG_ZONE} of placement group group"
RECORDED: Final = f"{GROUP_TAG}, {TEMPLATE_TAG}, {PLACEMENT_TAG}"


@pytest.mark.parametrize("at_preview", [True, False])
def test_a_good_stack_has_no_findings(at_preview: bool) -> None:
    assert said(good_stack(at_preview=at_preview)) == []


def span_two_zones(stack: Stack) -> None:
    stack.edit("gpu", "subnetIds", [stack.id("subnet-gpu"), stack.id("subnet-private-a")])
    stack.sources("gpu", subnetIds=["subnet-gpu", "subnet-private-a"])


@pytest.mark.parametrize("at_preview", [True, False])
def test_r01_subnets_of_two_zones_are_refused_with_both_named(at_preview: bool) -> None:
    stack = good_stack(at_preview=at_preview)
    span_two_zones(stack)
    assert said(stack) == two_zones(f"us-east-2a (subnet subnet-private-a); {ZONE} (subnet subnet-gpu, {RECORDED})")


def test_r56_two_zones_are_seen_when_the_whole_list_is_unknown() -> None:
    stack = good_stack()
    span_two_zones(stack)
    stack.edit("gpu", "subnetIds", UNKNOWN)
    assert said(stack) == two_zones(f"us-east-2a (subnet subnet-private-a); {ZONE} (subnet subnet-gpu, {RECORDED})")


def test_r56_a_good_zone_is_seen_when_the_whole_list_is_unknown() -> None:
    stack = good_stack()
    stack.edit("gpu", "subnetIds", UNKNOWN)
    assert said(stack) == []


def test_dependencies_of_a_component_stand_in_for_those_that_its_child_lost() -> None:
    stack = good_stack()
    stack.add("component", "eks:index:ManagedNodeGroup", {}, subnetIds=["subnet-private-a"], launchTemplate="template")
    stack.sources("gpu", subnetIds=[], launchTemplate=[])
    gpu = stack.resources["gpu"]
    stack.resources["gpu"] = type(gpu)(
        type=gpu.type, urn=gpu.urn, name=gpu.name, props=gpu.props, parent=stack.urn("component")
    )
    assert said(stack) == two_zones(f"us-east-2a (subnet subnet-private-a); {ZONE} ({RECORDED})")


def test_an_unknown_subnet_without_any_source_is_not_checked_never_passed() -> None:
    stack = good_stack()
    stack.sources("gpu", subnetIds=[])
    assert said(stack) == [
        Said("one-gpu-zone", "not-checked", "gpu", f"not checked yet: subnetIds {THEN}"),
        Said(
            "private-node-subnets",
            "not-checked",
            "gpu",
            "not checked yet: subnetIds is known only at up; then checked: the subnets are private",
        ),
    ]


def test_one_unknown_subnet_out_of_two_candidates_is_not_checked() -> None:
    stack = good_stack()
    stack.sources("gpu", subnetIds=["subnet-gpu", "subnet-private-a"])
    assert [(s.rule, s.level, s.message) for s in said(stack)] == [
        ("one-gpu-zone", "not-checked", f"not checked yet: which of the subnets in subnetIds it takes {THEN}"),
        (
            "private-node-subnets",
            "not-checked",
            "not checked yet: which of the subnets in subnetIds it takes is known only at up; "
            "then checked: the subnets are private",
        ),
    ]


@pytest.mark.parametrize("zone", [UNKNOWN, None])
def test_an_unknown_zone_of_a_subnet_is_not_checked(zone: Value) -> None:
    stack = good_stack()
    stack.edit("subnet-gpu", "availabilityZone", zone)
    assert said(stack) == [
        Said("one-gpu-zone", "not-checked", "gpu", f"not checked yet: the zone of subnet subnet-gpu {THEN}")
    ]


def test_a_subnet_of_another_stack_is_named_with_the_command_that_shows_its_zone() -> None:
    stack = good_stack()
    stack.edit("gpu", "subnetIds", ["subnet-0abc"])
    stack.sources("gpu", subnetIds=[])
    assert said(stack)[0] == Said(
        "one-gpu-zone",
        "not-checked",
        "gpu",
        "not checked yet: subnet subnet-0abc is not a resource of this stack; "
        "check by hand: aws ec2 describe-subnets --subnet-ids subnet-0abc",
    )
    assert said(stack)[1] == Said(
        "private-node-subnets",
        "not-checked",
        "gpu",
        "not checked yet: subnet subnet-0abc is not a resource of this stack; "
        "check by hand: aws ec2 describe-route-tables (no route to igw-)",
    )


def test_two_efa_subnets_of_one_zone_are_refused() -> None:
    stack = good_stack()
    span_two_zones(stack)
    stack.edit("subnet-private-a", "availabilityZone", ZONE)
    assert said(stack) == found(
        "one-gpu-zone",
        "gpu",
        "found EFA node group gpu in 2 subnets: subnet-gpu, subnet-private-a; "
        "allowed: exactly one subnet for a node group with EFA; "
        "why: one subnet is one Availability Zone, whatever is edited later; "
        "fix: give the group only the gpu subnet of gpuAvailabilityZone",
    )


@pytest.mark.parametrize(
    ("resource", "thing", "others"),
    [
        ("gpu", GROUP_TAG, f"{TEMPLATE_TAG}, {PLACEMENT_TAG}"),
        ("template", TEMPLATE_TAG, f"{GROUP_TAG}, {PLACEMENT_TAG}"),
        ("group", PLACEMENT_TAG, f"{GROUP_TAG}, {TEMPLATE_TAG}"),
    ],
)
def test_a_recorded_zone_that_differs_is_refused(resource: str, thing: str, others: str) -> None:
    stack = good_stack()
    stack.edit(resource, f"tags.{tokens.TAG_ZONE}", "us-east-2c")
    assert said(stack) == two_zones(f"{ZONE} (subnet subnet-gpu, {others}); us-east-2c ({thing})")


@pytest.mark.parametrize("at_preview", [True, False])
def test_a_reservation_in_another_zone_is_refused(at_preview: bool) -> None:
    stack = good_stack(at_preview=at_preview)
    stack.add(
        "reserved",
        tokens.CAPACITY_RESERVATION,
        {"availabilityZone": "us-east-2a", "placementGroupArn": stack.id("group")},
        placementGroupArn="group",
    )
    target = {"capacityReservationTarget": {"capacityReservationId": stack.id("reserved")}}
    stack.edit("template", "capacityReservationSpecification", target)
    stack.sources("template", capacityReservationSpecification=["reserved"])
    assert said(stack) == two_zones(
        f"us-east-2a (capacity reservation reserved); {ZONE} (subnet subnet-gpu, {RECORDED})"
    )


def test_workers_in_another_zone_are_refused() -> None:
    stack = good_stack()
    stack.edit("ray", "spec.workerGroupSpecs.0.template.spec.nodeSelector", {tokens.LABEL_ZONE: "us-east-2c"})
    assert said(stack) == found(
        "one-gpu-zone",
        "ray",
        f"found workers gpu in us-east-2c; allowed: the zone of the GPU nodes, {ZONE}; why: {WHY}; "
        "fix: set topology.kubernetes.io/zone of the workers from gpuAvailabilityZone",
    )


def test_workers_without_a_zone_are_refused() -> None:
    stack = good_stack()
    stack.edit("ray", "spec.workerGroupSpecs.0.template.spec.nodeSelector", None)
    assert said(stack) == found(
        "one-gpu-zone",
        "ray",
        "found workers gpu without a topology.kubernetes.io/zone selector; "
        f"allowed: the zone of the GPU nodes, {ZONE}; why: {WHY}; "
        "fix: set topology.kubernetes.io/zone of the workers from gpuAvailabilityZone",
    )


def test_node_affinity_serves_as_a_zone_selector() -> None:
    stack = good_stack()
    expression = {"key": tokens.LABEL_ZONE, "operator": "In", "values": [ZONE]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    stack.edit("ray", "spec.workerGroupSpecs.0.template.spec.nodeSelector", None)
    stack.edit(
        "ray",
        "spec.workerGroupSpecs.0.template.spec.affinity",
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
    )
    assert said(stack) == []


def test_workers_of_an_unknown_zone_are_not_checked() -> None:
    stack = good_stack()
    stack.edit("ray", "spec.workerGroupSpecs.0.template.spec.nodeSelector", {tokens.LABEL_ZONE: UNKNOWN})
    assert said(stack) == [
        Said(
            "one-gpu-zone",
            "not-checked",
            "ray",
            f"not checked yet: the zone of workers gpu or of the GPU nodes {THEN}",
        )
    ]


def test_a_file_system_in_another_zone_is_refused() -> None:
    stack = good_stack()
    stack.add("lustre", tokens.LUSTRE, {"subnetIds": stack.id("subnet-private-a")}, subnetIds="subnet-private-a")
    assert said(stack) == found(
        "one-gpu-zone",
        "lustre",
        f"found file system lustre in us-east-2a; allowed: the zone of the GPU nodes, {ZONE}; "
        "why: reads across zones are slower, and AWS bills each byte of them; "
        "fix: put the file system into the gpu subnet of gpuAvailabilityZone",
    )


@pytest.mark.parametrize(("hidden", "value"), [("instanceType", UNKNOWN), ("networkInterfaces", UNKNOWN)])
def test_a_group_known_to_have_gpus_or_efa_is_checked_whatever_else_is_unknown(hidden: str, value: Value) -> None:
    stack = good_stack()
    span_two_zones(stack)
    stack.edit("template", hidden, value)
    stack.edit("template", f"tags.{tokens.TAG_EFA}", None)
    assert ("one-gpu-zone", "violation") in [(s.rule, s.level) for s in said(stack)]


def test_a_group_of_unknown_kind_is_not_checked() -> None:
    stack = good_stack()
    stack.edit("system-template", "instanceType", UNKNOWN)
    message = f"not checked yet: whether the group has GPUs or EFA devices {THEN}"
    assert Said("one-gpu-zone", "not-checked", "system", message) in said(stack)


@pytest.mark.parametrize("kind", ["interface", "efa"])
@pytest.mark.parametrize("type_", ["g6.12xlarge", "c7gn.16xlarge"])
def test_gpus_or_efa_alone_tie_a_group_to_one_zone(kind: str, type_: str) -> None:
    stack = good_stack(instance_type=type_)
    span_two_zones(stack)
    for resource in ("gpu", "template", "group"):
        stack.edit(resource, f"tags.{tokens.TAG_ZONE}", None)
    stack.edit("template", "networkInterfaces.0.interfaceType", kind)
    tied = ("one-gpu-zone", "violation") in [(s.rule, s.level) for s in said(stack)]
    assert tied is (kind == "efa" or type_.startswith("g6"))


@pytest.mark.parametrize(("operator", "key"), [("NotIn", tokens.LABEL_ZONE), ("In", "topology.kubernetes.io/region")])
def test_other_affinities_select_no_zone(operator: str, key: str) -> None:
    stack = good_stack()
    expression = {"key": key, "operator": operator, "values": [ZONE]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    stack.edit("ray", "spec.workerGroupSpecs.0.template.spec.nodeSelector", None)
    stack.edit(
        "ray",
        "spec.workerGroupSpecs.0.template.spec.affinity",
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
    )
    assert [(s.rule, s.level) for s in said(stack)] == [("one-gpu-zone", "violation")]
