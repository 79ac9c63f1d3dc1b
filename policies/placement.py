"""Placement: the cluster placement group, and the capacity reservation that goes with it."""

from collections.abc import Iterator

from policies import tokens
from policies.graph import Graph, Resource
from policies.node_groups import NodeGroup, node_groups
from policies.rules import Finding, ResourceRule, StackRule, not_checked, not_visible, violation
from policies.values import UNKNOWN, Value, at, fields, text


def placement_groups(graph: Graph, template: Resource) -> list[Resource]:
    """List the placement groups of this stack that a launch template names."""
    return graph.sources(template, "placement.groupName", [tokens.PLACEMENT_GROUP])


def reservations(graph: Graph, template: Resource) -> list[Resource]:
    """List the capacity reservations of this stack that a launch template targets."""
    path = "capacityReservationSpecification.capacityReservationTarget.capacityReservationId"
    return graph.sources(template, path, [tokens.CAPACITY_RESERVATION])


def _reserved(template: Resource) -> Value:
    target = at(template.props, "capacityReservationSpecification", "capacityReservationTarget")
    by_id = at(target, "capacityReservationId")
    return by_id if by_id is not None else at(target, "capacityReservationResourceGroupArn")


def _is_capacity_block(template: Resource) -> bool:
    return at(template.props, "instanceMarketOptions", "marketType") == "capacity-block"


def check_placement_group(graph: Graph) -> Iterator[Finding]:
    """Check that an EFA group has a cluster placement group, or a recorded reason why not."""
    then = "an EFA node group has a cluster placement group, or a recorded reason why not"
    for group in node_groups(graph):
        template = group.template
        if group.efa is False:
            continue
        if template is None or group.efa is UNKNOWN:
            yield not_checked(group.resource, "the launch template's placement", then=then)
            continue
        name = at(template.props, "placement", "groupName")
        found = placement_groups(graph, template)
        if name is None:
            yield from _reason(group, template, then)
        for placement_group in found:
            strategy = at(placement_group.props, "strategy")
            if strategy is UNKNOWN:
                yield not_checked(placement_group, "strategy", then="the placement group's strategy is cluster")
            elif strategy != "cluster":
                yield violation(
                    placement_group,
                    f"placement group {placement_group.name} with strategy {strategy}, used by EFA nodes",
                    allowed="strategy cluster",
                    why="only a cluster group puts the nodes near each other, and lifts one TCP flow from 5 to 10 Gb/s",
                    fix="set placementGroup to create, or to existing:NAME of a cluster group",
                )
        if name is UNKNOWN and not found:
            yield not_checked(template, "placement.groupName", then="the placement group's strategy is cluster")
        elif text(name) and not found:
            hand = f"aws ec2 describe-placement-groups --group-names {name} (strategy cluster)"
            yield not_visible(template, f"placement group {name}", check=hand)


def _reason(group: NodeGroup, template: Resource, then: str) -> Iterator[Finding]:
    reasons = [at(resource.props, "tags", tokens.TAG_GROUP_REASON) for resource in (template, group.resource)]
    if any(text(reason) for reason in reasons) or _is_capacity_block(template):
        return
    if UNKNOWN in reasons:
        yield not_checked(template, f"tag {tokens.TAG_GROUP_REASON}", then=then)
        return
    yield violation(
        template,
        f"EFA launch template {template.name} without a placement group, and no reason recorded",
        allowed="a cluster placement group, or the reason why there is none",
        why="nodes that stand apart add latency to every collective, and nobody knows later whether it was meant",
        fix="set placementGroup to create, or set placementGroupReason to the reason",
    )


def check_reservation_group(graph: Graph) -> Iterator[Finding]:
    """Check that a reservation is used with no placement group other than the one that it was made in."""
    for template in graph.of(tokens.LAUNCH_TEMPLATE):
        reserved = _reserved(template)
        group_name = at(template.props, "placement", "groupName")
        if reserved is None or reserved == "" or group_name is None:
            continue
        groups = placement_groups(graph, template)
        made_in = [
            group.urn
            for reservation in reservations(graph, template)
            for group in graph.sources(reservation, "placementGroupArn", [tokens.PLACEMENT_GROUP])
        ]
        if groups and _is_capacity_block(template):
            yield violation(
                template,
                f"a Capacity Block together with placement group {groups[0].name}",
                allowed="a Capacity Block without a placement group",
                why="a Capacity Block places its instances itself",
                fix="set placementGroup to none, or purchase to another value",
            )
        elif groups and groups[0].urn not in made_in:
            yield violation(
                template,
                f"capacity reservation {_name(reserved)} together with placement group {groups[0].name} of this stack",
                allowed="the group that the reservation was made in, or none",
                why="a reservation takes no instance of another group: the launch fails for lack of capacity",
                fix="set placementGroup to existing:NAME of that group, or to none with placementGroupReason, or "
                "remove capacityReservationId",
            )
        elif not groups:
            hand = f"aws ec2 describe-capacity-reservations, PlacementGroupArn ends in {_name(group_name)}"
            yield not_visible(template, f"capacity reservation {_name(reserved)} or its placement group", check=hand)


def _name(value: Value) -> str:
    return text(value) or "of another resource"


def check_reservation_target(template: Resource) -> Iterator[Finding]:
    """Check that a launch template which speaks of a reservation says which one."""
    if template.type != tokens.LAUNCH_TEMPLATE:
        return
    specification = at(template.props, "capacityReservationSpecification")
    target = at(specification, "capacityReservationTarget")
    if target is UNKNOWN:
        yield not_checked(template, "capacityReservationTarget", then="the target names the reservation")
    elif (_is_capacity_block(template) or "capacityReservationTarget" in fields(specification)) and not _reserved(
        template
    ):
        yield violation(
            template,
            f"launch template {template.name} with an empty capacityReservationTarget",
            allowed="a target with the reservation's id",
            why="the instances would start outside the reservation, which is billed all the same",
            fix="set capacityReservationId, or purchase to onDemand",
        )


RULES = (
    StackRule(
        id="cluster-placement-group",
        what="EFA nodes are in a cluster placement group, or the reason why not is recorded.",
        why="Near nodes have lower latency and full bandwidth.",
        fix="`placementGroup: create`, or `placementGroupReason`.",
        check=check_placement_group,
    ),
    StackRule(
        id="reservation-placement-group",
        what="A capacity reservation is never combined with a placement group that it was not made in.",
        why="Such a launch fails for lack of capacity although the reservation has room.",
        fix="`placementGroup: existing:NAME` or `none`, or no `capacityReservationId`.",
        check=check_reservation_group,
    ),
    ResourceRule(
        id="reservation-target",
        what="A launch template that uses a reservation names it.",
        why="With an empty target the nodes start outside the reservation and both are billed.",
        fix="`capacityReservationId`, or `purchase: onDemand`.",
        check=check_reservation_target,
    ),
)
