"""What a rule is and what it finds."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from policies.graph import Graph, Resource

Level: TypeAlias = Literal["violation", "not-checked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a rule has to say about one resource."""

    resource: Resource
    level: Level
    message: str
    """One line: what was found, what is allowed, why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRule:
    """A rule about one resource alone: at `up` it stops the resource before it is made."""

    id: str
    what: str
    """What is enforced: the policy's description."""
    why: str
    fix: str
    """What usually puts it right."""
    check: Callable[[Resource], Iterable[Finding]]
    advisory: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRule:
    """A rule about resources together: checked in the preview, and again when the update has made them."""

    id: str
    what: str
    """What is enforced: the policy's description."""
    why: str
    fix: str
    """What usually puts it right."""
    check: Callable[[Graph], Iterable[Finding]]
    advisory: bool = False


Rule: TypeAlias = ResourceRule | StackRule


def violation(resource: Resource, found: str, *, allowed: str, why: str, fix: str) -> Finding:
    """Word a violation."""
    message = f"found {found}; allowed: {allowed}; why: {why}; fix: {fix}"
    return Finding(resource=resource, level="violation", message=message)


def not_checked(resource: Resource, unknown: str, *, then: str) -> Finding:
    """Say that `unknown` keeps a rule from being checked, and what will be checked once it is known."""
    return Finding(
        resource=resource,
        level="not-checked",
        message=f"not checked yet: {unknown} is known only at up; then checked: {then}",
    )


def not_visible(resource: Resource, outside: str, *, check: str, where: str = "a resource of this stack") -> Finding:
    """Say that a rule needs something that cannot be seen here, and how to check it by hand."""
    return Finding(
        resource=resource,
        level="not-checked",
        message=f"not checked yet: {outside} is not {where}; check by hand: {check}",
    )


def findings(rules: Iterable[Rule], graph: Graph) -> Iterator[tuple[Rule, Finding]]:
    """Run `rules` over a whole graph, resource by resource where a rule is about one."""
    for rule in rules:
        if isinstance(rule, StackRule):
            yield from ((rule, finding) for finding in rule.check(graph))
        else:
            for resource in graph.resources:
                yield from ((rule, finding) for finding in rule.check(resource))
