import pytest

from policies import tokens
from policies.values import UNKNOWN
from tests.policies.good_stack import Said, Stack, found, good_stack, said

TARGET = {"capacityReservationTarget": {"capacityReservationId": "cr-0abc"}}
NO_GROUP = (
    "found EFA launch template template without a placement group, and no reason recorded; "
    "allowed: a cluster placement group, or the reason why there is none; "
    "why: nodes that stand apart add latency to every collective, and nobody knows later whether it was meant; "
    "fix: set placementGroup to create, or set placementGroupReason to the reason"
)


def without_group(stack: Stack) -> None:
    stack.edit("template", "placement", None)
    stack.sources("template", placement=[])


def test_a_group_that_spreads_the_nodes_is_refused() -> None:
    stack = good_stack()
    stack.edit("group", "strategy", "spread")
    assert said(stack) == found(
        "cluster-placement-group",
        "group",
        "found placement group group with strategy spread, used by EFA nodes; allowed: strategy cluster; "
        "why: only a cluster group puts the nodes near each other, and lifts one TCP flow from 5 to 10 Gb/s; "
        "fix: set placementGroup to create, or to existing:NAME of a cluster group",
    )


def test_efa_without_group_or_reason_is_refused() -> None:
    stack = good_stack()
    without_group(stack)
    assert said(stack) == found("cluster-placement-group", "template", NO_GROUP)


@pytest.mark.parametrize("resource", ["template", "gpu"])
def test_a_recorded_reason_stands_for_the_group(resource: str) -> None:
    stack = good_stack()
    without_group(stack)
    stack.edit(resource, f"tags.{tokens.TAG_GROUP_REASON}", "a reservation made without a group")
    assert said(stack) == []


def test_a_capacity_block_needs_no_group() -> None:
    stack = good_stack()
    without_group(stack)
    stack.edit("template", "instanceMarketOptions", {"marketType": "capacity-block"})
    stack.edit("template", "capacityReservationSpecification", TARGET)
    assert said(stack) == []


def test_without_efa_no_group_is_asked_for() -> None:
    stack = good_stack()
    without_group(stack)
    stack.edit("template", "networkInterfaces.0.interfaceType", "interface")
    stack.edit("ray", f"spec.workerGroupSpecs.0.template.spec.containers.0.resources.limits.{tokens.GPU}", 4)
    for section in ("requests", "limits"):
        resources = {"cpu": "40", "memory": "160Gi", tokens.GPU: 4}
        stack.edit("ray", f"spec.workerGroupSpecs.0.template.spec.containers.0.resources.{section}", resources)
    assert said(stack) == []


def test_an_existing_group_is_named_with_the_command_that_shows_its_strategy() -> None:
    stack = good_stack()
    stack.edit("template", "placement.groupName", "mine")
    stack.sources("template", placement=[])
    assert said(stack) == [
        Said(
            "cluster-placement-group",
            "not-checked",
            "template",
            "not checked yet: placement group mine is not a resource of this stack; "
            "check by hand: aws ec2 describe-placement-groups --group-names mine (strategy cluster)",
        )
    ]


def test_unknown_parts_of_the_group_are_not_checked() -> None:
    stack = good_stack()
    stack.edit("group", "strategy", UNKNOWN)
    assert said(stack) == [
        Said(
            "cluster-placement-group",
            "not-checked",
            "group",
            "not checked yet: strategy is known only at up; then checked: the placement group's strategy is cluster",
        )
    ]
    stack = good_stack()
    stack.sources("template", placement=[])
    assert [s.message for s in said(stack)] == [
        "not checked yet: placement.groupName is known only at up; then checked: the placement group's strategy is cluster"
    ]


def test_an_unknown_reason_is_not_checked() -> None:
    stack = good_stack()
    without_group(stack)
    stack.edit("template", f"tags.{tokens.TAG_GROUP_REASON}", UNKNOWN)
    assert [(s.rule, s.level, s.message) for s in said(stack)] == [
        (
            "cluster-placement-group",
            "not-checked",
            "not checked yet: tag efa-ray-train:placement-reason is known only at up; then checked: "
            "an EFA node group has a cluster placement group, or a recorded reason why not",
        )
    ]


def test_a_launch_template_out_of_sight_is_not_checked_by_any_rule_that_needs_it() -> None:
    stack = good_stack()
    stack.sources("gpu", launchTemplate=[])
    assert {(s.rule, s.level) for s in said(stack)} == {
        ("cluster-placement-group", "not-checked"),
        ("efa-instance-type", "not-checked"),
        ("workers-fit", "not-checked"),
    }


def test_r03_a_reservation_with_a_group_of_our_own_is_refused() -> None:
    stack = good_stack()
    stack.edit("template", "capacityReservationSpecification", TARGET)
    assert said(stack) == found(
        "reservation-placement-group",
        "template",
        "found capacity reservation cr-0abc together with placement group group of this stack; "
        "allowed: the group that the reservation was made in, or none; "
        "why: a reservation takes no instance of another group: the launch fails for lack of capacity; "
        "fix: set placementGroup to existing:NAME of that group, or to none with placementGroupReason, or "
        "remove capacityReservationId",
    )


@pytest.mark.parametrize("at_preview", [True, False])
def test_a_reservation_made_in_our_group_is_fine(at_preview: bool) -> None:
    stack = good_stack(at_preview=at_preview)
    props = {"availabilityZone": "us-east-2b", "placementGroupArn": stack.id("group")}
    stack.add("reserved", tokens.CAPACITY_RESERVATION, props, placementGroupArn="group")
    target = {"capacityReservationTarget": {"capacityReservationId": stack.id("reserved")}}
    stack.edit("template", "capacityReservationSpecification", target)
    stack.sources("template", capacityReservationSpecification=["reserved"])
    assert said(stack) == []


def test_a_reservation_with_an_existing_group_is_to_be_checked_by_hand() -> None:
    stack = good_stack()
    stack.edit("template", "capacityReservationSpecification", TARGET)
    stack.edit("template", "placement.groupName", "mine")
    stack.sources("template", placement=[])
    assert [s.message for s in said(stack) if s.rule == "reservation-placement-group"] == [
        "not checked yet: capacity reservation cr-0abc or its placement group is not a resource of this stack; "
        "check by hand: aws ec2 describe-capacity-reservations, PlacementGroupArn ends in mine"
    ]


def test_a_capacity_block_with_a_group_of_our_own_is_refused() -> None:
    stack = good_stack()
    stack.edit("template", "instanceMarketOptions", {"marketType": "capacity-block"})
    stack.edit("template", "capacityReservationSpecification", TARGET)
    assert said(stack) == found(
        "reservation-placement-group",
        "template",
        "found a Capacity Block together with placement group group; "
        "allowed: a Capacity Block without a placement group; why: a Capacity Block places its instances itself; "
        "fix: set placementGroup to none, or purchase to another value",
    )


@pytest.mark.parametrize("target", [{}, {"capacityReservationId": ""}, None])
def test_r06_an_empty_reservation_target_is_refused(target: dict[str, str] | None) -> None:
    stack = good_stack()
    stack.edit("template", "capacityReservationSpecification", {"capacityReservationTarget": target})
    assert said(stack) == found(
        "reservation-target",
        "template",
        "found launch template template with an empty capacityReservationTarget; "
        "allowed: a target with the reservation's id; "
        "why: the instances would start outside the reservation, which is billed all the same; "
        "fix: set capacityReservationId, or purchase to onDemand",
    )


def test_a_capacity_block_without_a_target_is_refused() -> None:
    stack = good_stack()
    without_group(stack)
    stack.edit("template", "instanceMarketOptions", {"marketType": "capacity-block"})
    assert [(s.rule, s.level) for s in said(stack)] == [("reservation-target", "violation")]


def test_an_open_preference_needs_no_target() -> None:
    stack = good_stack()
    stack.edit("template", "capacityReservationSpecification", {"capacityReservationPreference": "open"})
    assert said(stack) == []


def test_an_unknown_reservation_target_is_not_checked() -> None:
    stack = good_stack()
    stack.edit("template", "capacityReservationSpecification", {"capacityReservationTarget": UNKNOWN})
    assert ("reservation-target", "not-checked") in [(s.rule, s.level) for s in said(stack)]
