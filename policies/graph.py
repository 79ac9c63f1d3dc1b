"""The stack as a graph: resources, and which of them each property comes from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from policies.values import UNKNOWN, Properties, at, entries, text


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource of the stack, as far as this operation knows it."""

    type: str
    """Type token, such as `aws:ec2/subnet:Subnet`."""
    urn: str
    name: str
    """Name in the program, the last part of the URN."""
    props: Properties
    """What the program asks for, over what the provider answered; unknown parts are UNKNOWN."""
    parent: str | None = None
    dependencies: tuple[str, ...] = ()
    """URNs of everything that the resource waits for."""
    property_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """For each top-level property, the URNs of the resources that its value comes from; known even at preview."""

    @property
    def stack(self) -> str:
        """Name the stack, from `urn:pulumi:STACK::PROJECT::TYPES::NAME`."""
        return self.urn.removeprefix("urn:pulumi:").split("::", 1)[0]

    def tag(self, key: str) -> str | None:
        """Return the value of an AWS tag; None when it is absent or unknown."""
        return text(at(self.props, "tags", key))


@dataclass(frozen=True)
class Graph:
    """All resources of a stack."""

    resources: tuple[Resource, ...]

    @cached_property
    def by_urn(self) -> Mapping[str, Resource]:
        """Index the resources by URN."""
        return {resource.urn: resource for resource in self.resources}

    @cached_property
    def _by_type(self) -> Mapping[str, list[Resource]]:
        index: dict[str, list[Resource]] = {}
        for resource in self.resources:
            index.setdefault(resource.type, []).append(resource)
        return index

    @cached_property
    def _by_id(self) -> Mapping[str, list[Resource]]:
        index: dict[str, list[Resource]] = {}
        for resource in self.resources:
            identifier = text(at(resource.props, "id"))
            if identifier is not None:
                index.setdefault(identifier, []).append(resource)
        return index

    def identified(self, identifier: str, types: Iterable[str]) -> list[Resource]:
        """List the resources of `types` that the provider knows as `identifier`."""
        wanted = frozenset(types)
        return [resource for resource in self._by_id.get(identifier, []) if resource.type in wanted]

    def of(self, *types: str) -> list[Resource]:
        """List the resources of these types, in the order of registration."""
        return [resource for type_ in types for resource in self._by_type.get(type_, [])]

    def sources(self, resource: Resource, path: str, types: Iterable[str]) -> list[Resource]:
        """List the resources of `types` that the property at `path` (dotted) of `resource` comes from.

        Known ids are looked up. An unknown value is followed through the recorded property dependencies, and, where a
        component's child has none of its own, through those of the component. This is what makes a check possible at
        preview, before any id exists.
        """
        wanted = frozenset(types)
        key = path.split(".")[0]
        named = [self.identified(identifier, wanted) for identifier in known_ids(resource, path)]
        if named and all(named):
            return _unique(source for sources in named for source in sources)
        current: Resource | None = resource
        while current is not None:
            found = [self.by_urn.get(urn) for urn in current.property_dependencies.get(key, ())]
            sources = _unique(source for source in found if source is not None and source.type in wanted)
            if sources:
                return sources
            current = self.by_urn.get(current.parent) if current.parent else None
        return []


def known_ids(resource: Resource, path: str) -> list[str]:
    """List the ids at `path` (dotted) of `resource`; none of them unless all are known."""
    values = entries(at(resource.props, *path.split(".")))
    if any(value is UNKNOWN or text(value) is None for value in values):
        return []
    return [value for value in values if isinstance(value, str)]


def _unique(resources: Iterable[Resource]) -> list[Resource]:
    return list({resource.urn: resource for resource in resources}.values())
