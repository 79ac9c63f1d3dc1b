"""What the added actions remember, kept on moto's own backend so that moto's reset forgets it too."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

from moto.core.base_backend import BaseBackend
from moto.ec2.models import EC2Backend, ec2_backends
from moto.eks.models import EKSBackend, eks_backends

T = TypeVar("T")

Record = dict[str, Any]
"""A record as the API describes it: its keys are those of the response's shape."""


@dataclass(slots=True)
class Ec2Store:
    """Added EC2 state of one account and Region."""

    placement_groups: dict[str, Record] = field(default_factory=dict[str, Record])
    """By name."""
    placement_zones: dict[str, str] = field(default_factory=dict[str, str])
    """Where the instances of a cluster placement group stand, by group name: the first instance decides."""
    reservations: dict[str, Record] = field(default_factory=dict[str, Record])
    """Capacity reservations by id."""


@dataclass(slots=True)
class EksStore:
    """Added EKS state of one account and Region; keys are (cluster name, name or ARN within it)."""

    addons: dict[tuple[str, str], Record] = field(default_factory=dict[tuple[str, str], Record])
    access_entries: dict[tuple[str, str], Record] = field(default_factory=dict[tuple[str, str], Record])
    policies: dict[tuple[str, str], list[Record]] = field(default_factory=dict[tuple[str, str], list[Record]])
    """Policies associated with an access entry."""
    pod_identities: dict[tuple[str, str], Record] = field(default_factory=dict[tuple[str, str], Record])
    updates: dict[str, Record] = field(default_factory=dict[str, Record])
    """Updates by id."""
    cluster_groups: dict[str, str] = field(default_factory=dict[str, str])
    """The security group that EKS made for a cluster, by cluster name."""
    cluster_interfaces: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """The control plane's network interfaces in the cluster's subnets, by cluster name."""
    instances: dict[tuple[str, str], list[str]] = field(default_factory=dict[tuple[str, str], list[str]])
    """Instance ids of a node group."""


def ec2_backend(account: str, region: str) -> EC2Backend:
    """Give moto's EC2 backend of an account and Region."""
    return ec2_backends[account][region]


def ec2_store(account: str, region: str) -> Ec2Store:
    """Give the added EC2 state of an account and Region."""
    return _attached(ec2_backends[account][region], Ec2Store)


def eks_backend(account: str, region: str) -> EKSBackend:
    """Give moto's EKS backend of an account and Region."""
    return eks_backends[account][region]


def eks_store(account: str, region: str) -> EksStore:
    """Give the added EKS state of an account and Region."""
    return _attached(eks_backends[account][region], EksStore)


def with_tags(backend: EC2Backend, record: Record, resource_id: str) -> Record:
    """Give the record with its tags from moto's own tag store, which CreateTags and DescribeTags use."""
    tags = backend.describe_tags({"resource-id": [resource_id]})
    return {**record, "Tags": [{"Key": tag["key"], "Value": tag["value"]} for tag in tags]}


def _attached(backend: BaseBackend, kind: type[T]) -> T:
    # moto's reset empties __dict__, so state that lives there is forgotten with the rest.
    return vars(backend).setdefault("rehearsal_store", kind())
