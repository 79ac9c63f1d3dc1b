"""The security group that lets EFA devices talk to each other, and the one that lets their nodes join."""

from collections.abc import Iterator
from typing import Final

from policies import tokens
from policies.graph import Graph, Resource
from policies.node_groups import has_efa
from policies.rules import Finding, StackRule, not_checked, violation
from policies.security_groups import Direction, opens_to_itself
from policies.values import UNKNOWN, Unknown, Value, at, entries, text

_DIRECTIONS: Final[tuple[Direction, ...]] = ("ingress", "egress")
_BOTH: Final = "both the cluster's security group and the EFA group"
_SELF_WHY: Final = (
    "EFA's packets pass only a rule that names the group itself, 0.0.0.0/0 is not enough: ranks hang, or error 4126"
)


def check_security_group(graph: Graph) -> Iterator[Finding]:
    """Check that each EFA interface is in the cluster's group and in one that is open to itself both ways."""
    for template in graph.of(tokens.LAUNCH_TEMPLATE):
        kinds = [at(interface, "interfaceType") for interface in entries(at(template.props, "networkInterfaces"))]
        if UNKNOWN in kinds and has_efa(template) is not False:
            yield not_checked(template, "networkInterfaces", then="the security groups of the EFA interfaces")
        if has_efa(template):
            for where, interface in _distinct(template):
                yield from _check_interface(graph, template, where, interface)


def _distinct(template: Resource) -> Iterator[tuple[str, Value]]:
    """Yield one EFA interface for each list of groups, and say which ones it stands for: 32 alike are one finding."""
    alike: dict[str, list[int]] = {}
    interfaces = entries(at(template.props, "networkInterfaces"))
    for index, interface in enumerate(interfaces):
        if at(interface, "interfaceType") in tokens.EFA_INTERFACES:
            alike.setdefault(repr(at(interface, "securityGroups")), []).append(index)
    for indexes in alike.values():
        span = f"{indexes[0]}..{indexes[-1]}" if len(indexes) > 1 else f"{indexes[0]}"
        yield f"networkInterfaces[{span}] of launch template {template.name}", interfaces[indexes[0]]


def _check_interface(graph: Graph, template: Resource, where: str, interface: Value) -> Iterator[Finding]:
    listed = entries(at(interface, "securityGroups"))
    groups, in_cluster = _groups_by_source(graph, template, interface)
    if UNKNOWN not in listed:
        by_id, in_cluster = _groups_by_id(graph, listed, in_cluster)
        groups = by_id or groups
    if in_cluster is UNKNOWN:
        yield not_checked(template, f"securityGroups of {where}", then="the cluster's group is among them")
    elif not in_cluster:
        yield violation(
            template,
            f"{where} without the cluster's security group",
            allowed=_BOTH,
            why="EKS adds none when an interface names its own, so the nodes never join the cluster",
            fix="list the cluster's security group beside the EFA group",
        )
    if in_cluster is True and len(listed) == 1 and at(interface, "securityGroups") is not UNKNOWN:
        yield violation(
            template,
            f"{where} without an EFA security group",
            allowed=_BOTH,
            why=_SELF_WHY,
            fix="list the EFA group beside the cluster's security group",
        )
    elif listed:
        yield from _check_self_rules(graph, template, where, groups)


def _groups_by_id(
    graph: Graph, listed: list[Value], by_source: bool | Unknown
) -> tuple[list[Resource], bool | Unknown]:
    known = [identifier for value in listed if (identifier := text(value))]
    groups = [found for identifier in known for found in graph.identified(identifier, [tokens.SECURITY_GROUP])]
    own = [at(cluster.props, "vpcConfig", "clusterSecurityGroupId") for cluster in graph.of(tokens.CLUSTER)]
    if any(identifier in own for identifier in known):
        return groups, True
    # An id that is no group of this stack might be the cluster's, as long as the cluster does not say which one it has.
    accounted = len(groups) == len(known) or (bool(own) and all(text(identifier) for identifier in own))
    if accounted:
        return groups, False
    return groups, True if by_source is True else UNKNOWN


def _groups_by_source(graph: Graph, template: Resource, interface: Value) -> tuple[list[Resource], bool | Unknown]:
    groups = graph.sources(template, "networkInterfaces", [tokens.SECURITY_GROUP])
    if graph.sources(template, "networkInterfaces", tokens.CLUSTERS):
        return groups, True
    listed = at(interface, "securityGroups")
    return groups, UNKNOWN if listed is UNKNOWN or len(entries(listed)) > len(groups) else False


def _check_self_rules(graph: Graph, template: Resource, where: str, groups: list[Resource]) -> Iterator[Finding]:
    if not groups:
        yield not_checked(template, f"the EFA security group of {where}", then="it is open to itself both ways")
        return
    states = {group.urn: {way: opens_to_itself(graph, group, way) for way in _DIRECTIONS} for group in groups}
    if any(all(state is True for state in ways.values()) for ways in states.values()):
        return
    marked = [group for group in groups if group.tag(tokens.TAG_ROLE) == "efa"] or groups
    group = marked[0]
    if UNKNOWN in states[group.urn].values():
        yield not_checked(group, "its rules", then=f"security group {group.name} is open to itself both ways")
        return
    missing = [way for way in _DIRECTIONS if states[group.urn][way] is False]
    yield violation(
        group,
        f"security group {group.name}, used by {where}, without an all-traffic {' or '.join(missing)} rule to itself",
        allowed="ingress and egress of all protocols (-1) that name the group itself",
        why=_SELF_WHY,
        fix=f"add the {' and '.join(missing)} rule: ipProtocol -1, referencedSecurityGroupId the group's own id",
    )


RULES = (
    StackRule(
        id="efa-security-group",
        what="EFA interfaces are in the cluster's security group and in one open to itself both ways.",
        why=_SELF_WHY[0].upper() + _SELF_WHY[1:] + ".",
        fix="Ingress and egress rule of protocol -1 that name the group; list the cluster's group too.",
        check=check_security_group,
    ),
)
