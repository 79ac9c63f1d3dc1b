"""Whether a security group is open to itself, whichever way its rules are written."""

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from policies import tokens
from policies.graph import Graph, Resource
from policies.values import UNKNOWN, Unknown, Value, at, entries, text, truth

Direction: TypeAlias = Literal["ingress", "egress"]

_ALL: Final = ("-1", "all")


def opens_to_itself(graph: Graph, group: Resource, way: Direction) -> bool | Unknown:
    """Say whether `group` lets all traffic from itself in (or to itself out) by a rule that names the group.

    Rules may be resources of their own (one for each rule, or the older kind for both ways) or stand inside the group.
    UNKNOWN when no rule is certain to do so and one might.
    """
    answers = [*_separate(graph, group, way), *_older(graph, group, way), *_inline(group, way)]
    if True in answers:
        return True
    return UNKNOWN if UNKNOWN in answers else False


def _separate(graph: Graph, group: Resource, way: Direction) -> Iterator[bool | Unknown]:
    for rule in graph.of(tokens.INGRESS_RULE if way == "ingress" else tokens.EGRESS_RULE):
        if _points_at(graph, rule, "securityGroupId", group) and _points_at(
            graph, rule, "referencedSecurityGroupId", group
        ):
            yield _all_traffic(at(rule.props, "ipProtocol"))


def _older(graph: Graph, group: Resource, way: Direction) -> Iterator[bool | Unknown]:
    for rule in graph.of(tokens.SECURITY_GROUP_RULE):
        if at(rule.props, "type") == way and _points_at(graph, rule, "securityGroupId", group):
            itself = truth(at(rule.props, "self"))
            if itself is True or _points_at(graph, rule, "sourceSecurityGroupId", group):
                yield _all_traffic(at(rule.props, "protocol"))
            elif itself is UNKNOWN:
                yield UNKNOWN


def _inline(group: Resource, way: Direction) -> Iterator[bool | Unknown]:
    identifier = text(at(group.props, "id"))
    for rule in entries(at(group.props, way)):
        itself = truth(at(rule, "self"))
        if itself is True or (identifier is not None and identifier in entries(at(rule, "securityGroups"))):
            yield _all_traffic(at(rule, "protocol"))
        elif itself is UNKNOWN:
            yield UNKNOWN


def _points_at(graph: Graph, rule: Resource, path: str, group: Resource) -> bool:
    return group in graph.sources(rule, path, [tokens.SECURITY_GROUP])


def _all_traffic(protocol: Value) -> bool | Unknown:
    if protocol is UNKNOWN:
        return UNKNOWN
    return str(protocol) in _ALL
