"""What the stand-in has to know about a resource type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..naming import Autoname
from ..values import Properties, Props, Value
from .api import Api


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One operation on one resource: the API, where, and the inputs that it shall have."""

    api: Api
    region: str
    inputs: Props
    id: str = ""
    old: Props = field(default_factory=lambda: Props({}))
    """The inputs that it has, for an update."""
    state: Props = field(default_factory=lambda: Props({}))
    """The outputs that it has."""

    def __call__(self, service: str, operation: str, **arguments: object) -> Props:
        """Call an operation of the AWS API."""
        return self.api.call(service, operation, self.region, **arguments)

    def changed(self, *properties: str) -> bool:
        """Tell whether an update changes one of these inputs."""
        return any(self.old.get(name) != self.inputs.get(name) for name in properties)

    def tags(self) -> dict[str, str]:
        """The resource's tags."""
        return self.inputs.mapping("tags")

    def ec2_tags(self, resource: str) -> list[Mapping[str, object]] | None:
        """The tags as EC2 takes them at creation; None when there are none."""
        tags = self.tags()
        return [{"ResourceType": resource, "Tags": as_tag_list(tags)}] if tags else None


Rule = Callable[[Props], "list[tuple[str, str]]"]
"""A constraint that the schema does not know: gives (property, reason) for each violation, from inputs that may be unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A resource type: how it is made, read, changed and deleted, and what a change to it means.

    `read` gives None for a resource that is gone. `update` None: every change replaces.
    """

    title: str
    """How pulumi-aws names the type in its errors, such as `EC2 VPC`."""
    create: Callable[[Call], str]
    read: Callable[[Call], Properties | None]
    delete: Callable[[Call], None]
    update: Callable[[Call], None] | None = None
    replace_on: tuple[str, ...] = ()
    """Inputs whose change replaces: ForceNew and RequiresReplace in the Terraform provider that pulumi-aws bridges."""
    sets: tuple[str, ...] = ()
    """Lists whose order means nothing."""
    autoname: Autoname | None = None
    defaults: Mapping[str, Value] = field(default_factory=dict[str, Value])
    rules: tuple[Rule, ...] = ()
    recomputed: tuple[str, ...] = ()
    """Outputs that any update makes unknown until it is done."""
    unready: Callable[[Call], str | None] | None = None
    """Says why a resource that was just made is not ready; it then stays in the state as half made."""
    gone: tuple[str, ...] = ()
    """Error codes that mean the resource does not exist any more."""


def as_tag_list(tags: Mapping[str, str]) -> list[Mapping[str, object]]:
    """Give tags as a list of keys and values."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def from_tag_list(tags: list[Props]) -> Properties | None:
    """Read tags from a list of keys and values; AWS's own tags are left out."""
    found: Properties = {tag.text("Key"): tag.text("Value") for tag in tags if not tag.text("Key").startswith("aws:")}
    return found or None


def pascal(name: str) -> str:
    """Turn a Pulumi name into an API one: vpcId, VpcId."""
    return name[:1].upper() + name[1:]


def void(_: Props) -> None:
    """Drop an answer that says nothing."""
