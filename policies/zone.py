"""Zone: everything that a GPU node draws in stands in one Availability Zone."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from policies import tokens
from policies.graph import Graph, Resource, known_ids
from policies.node_groups import NodeGroup, node_groups
from policies.placement import placement_groups, reservations
from policies.pods import RayGroup, ray_groups_of
from policies.rules import Finding, StackRule, not_checked, not_visible, violation
from policies.values import UNKNOWN, Value, at, entries, text

_ONE_ZONE: Final = (
    "one Availability Zone for subnets, placement group, reservation and workers, that of gpuAvailabilityZone"
)
_ONE_ZONE_WHY: Final = (
    "EFA traffic does not leave its zone, and instances of a cluster placement group start in one zone only"
)


@dataclass(frozen=True, slots=True)
class _Place:
    zone: Value
    thing: str


def check_one_zone(graph: Graph) -> Iterator[Finding]:
    """Check that each GPU node group, all that belongs to it, the workers and their file system stand in one zone."""
    zones: set[str] = set()
    undecided = False
    for group in node_groups(graph):
        if group.has_gpus is True or group.efa is True:
            places = _places(graph, group)
            zones.update(zone for place in places if (zone := text(place.zone)))
            undecided |= any(place.zone is UNKNOWN for place in places) or group.subnet_gap is not None
            yield from _one_zone_of_group(group, places)
        elif UNKNOWN in (group.has_gpus, group.efa):
            yield not_checked(group.resource, "whether the group has GPUs or EFA devices", then=_ONE_ZONE)
            undecided = True
    yield from _one_zone_of_users(graph, zones, undecided)


def _places(graph: Graph, group: NodeGroup) -> list[_Place]:
    subnets = group.subnets if group.subnet_gap is None else []
    places = [_Place(_zone(subnet), f"subnet {subnet.name}") for subnet in subnets]
    tagged = [(group.resource, "node group")]
    if group.template is not None:
        tagged.append((group.template, "launch template"))
        tagged += [(found, "placement group") for found in placement_groups(graph, group.template)]
        for reservation in reservations(graph, group.template):
            places.append(_Place(_zone(reservation), f"capacity reservation {reservation.name}"))
    for resource, noun in tagged:
        zone = at(resource.props, "tags", tokens.TAG_ZONE)
        if zone is not None:
            places.append(_Place(zone, f"tag {tokens.TAG_ZONE} of {noun} {resource.name}"))
    return places


def _zone(resource: Resource) -> Value:
    zone = at(resource.props, "availabilityZone")
    return UNKNOWN if zone is None else zone  # placed by zone id, or by AWS: only the provider knows where


def _one_zone_of_group(group: NodeGroup, places: list[_Place]) -> Iterator[Finding]:
    name = group.resource.name
    zones = sorted({zone for place in places if (zone := text(place.zone))})
    if len(zones) > 1:
        listed = "; ".join(f"{zone} ({', '.join(p.thing for p in places if p.zone == zone)})" for zone in zones)
        yield violation(
            group.resource,
            f"node group {name} tied to {len(zones)} Availability Zones: {listed}",
            allowed=_ONE_ZONE,
            why=f"{_ONE_ZONE_WHY}: the first create may work, every later update then fails",
            fix="give the group one subnet, that of gpuAvailabilityZone, and set that to the reservation's zone",
        )
    elif group.efa is True and len(group.subnets) > 1 and group.subnet_gap is None:
        yield violation(
            group.resource,
            f"EFA node group {name} in {len(group.subnets)} subnets: {', '.join(s.name for s in group.subnets)}",
            allowed="exactly one subnet for a node group with EFA",
            why="one subnet is one Availability Zone, whatever is edited later",
            fix="give the group only the gpu subnet of gpuAvailabilityZone",
        )
    for place in places:
        if place.zone is UNKNOWN:
            yield not_checked(group.resource, f"the zone of {place.thing}", then=_ONE_ZONE)
    if group.subnet_gap is not None:
        yield not_checked(group.resource, group.subnet_gap, then=_ONE_ZONE)
    elif not group.subnets:
        ids = ", ".join(known_ids(group.resource, "subnetIds"))
        yield not_visible(group.resource, f"subnet {ids}", check=f"aws ec2 describe-subnets --subnet-ids {ids}")


def _one_zone_of_users(graph: Graph, zones: set[str], undecided: bool) -> Iterator[Finding]:
    if not zones and not undecided:
        return
    for worker in ray_groups_of(graph):
        if worker.role == "worker" and worker.asks(tokens.GPU) is not False:
            user = _User(
                worker.resource,
                f"workers {worker.name}",
                without=f"without a {tokens.LABEL_ZONE} selector",
                why=_ONE_ZONE_WHY,
                fix=f"set {tokens.LABEL_ZONE} of the workers from gpuAvailabilityZone",
            )
            yield from _zone_of_user(user, _worker_zones(worker), zones, undecided)
    for lustre in graph.of(tokens.LUSTRE):
        subnets = graph.sources(lustre, "subnetIds", [tokens.SUBNET])
        user = _User(
            lustre,
            f"file system {lustre.name}",
            without="without a subnet",
            why="reads across zones are slower, and AWS bills each byte of them",
            fix="put the file system into the gpu subnet of gpuAvailabilityZone",
        )
        yield from _zone_of_user(user, [_zone(subnet) for subnet in subnets] or [UNKNOWN], zones, undecided)


@dataclass(frozen=True, slots=True)
class _User:
    resource: Resource
    noun: str
    without: str
    why: str
    fix: str


def _zone_of_user(user: _User, found: list[Value], zones: set[str], undecided: bool) -> Iterator[Finding]:
    if UNKNOWN in found or (undecided and not zones):
        yield not_checked(user.resource, f"the zone of {user.noun} or of the GPU nodes", then=_ONE_ZONE)
        return
    wrong = [str(zone) for zone in found if zone not in zones]
    if wrong or not found:
        yield violation(
            user.resource,
            f"{user.noun} {'in ' + ', '.join(wrong) if found else user.without}",
            allowed=f"the zone of the GPU nodes, {' or '.join(sorted(zones))}",
            why=user.why,
            fix=user.fix,
        )


def _worker_zones(worker: RayGroup) -> list[Value]:
    selected = at(worker.pod, "nodeSelector", tokens.LABEL_ZONE)
    if selected is not None:
        return [selected]
    required = at(worker.pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return [
        zone
        for term in entries(at(required, "nodeSelectorTerms"))
        for expression in entries(at(term, "matchExpressions"))
        if at(expression, "key") == tokens.LABEL_ZONE and at(expression, "operator") == "In"
        for zone in entries(at(expression, "values"))
    ]


RULES = (
    StackRule(
        id="one-gpu-zone",
        what="GPU nodes, their subnet, placement group, reservation, workers and file system stand in one zone.",
        why=_ONE_ZONE_WHY[0].upper() + _ONE_ZONE_WHY[1:] + ".",
        fix="One subnet in `gpuAvailabilityZone`; workers' zone selector from the same key.",
        check=check_one_zone,
    ),
)
