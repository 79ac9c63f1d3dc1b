"""EFA devices: their layout in the launch template, and whether the instance type has them."""

from collections.abc import Iterator
from typing import Final

from infra.instances import INSTANCE_TYPES, InstanceType
from policies import tokens
from policies.graph import Graph, Resource
from policies.node_groups import has_efa, node_groups
from policies.rules import Finding, ResourceRule, StackRule, not_checked, not_visible, violation
from policies.values import UNKNOWN, Unknown, Value, at, entries, number, text

INSTANCE_TABLE: Final = "in infra/instances/table.py"


def check_layout(template: Resource) -> Iterator[Finding]:
    """Check how a launch template with EFA lays out its network interfaces."""
    if template.type != tokens.LAUNCH_TEMPLATE or has_efa(template) is False:
        return
    then = "the layout of the EFA interfaces"
    interfaces = entries(at(template.props, "networkInterfaces"))
    if UNKNOWN in interfaces or has_efa(template) is UNKNOWN:
        yield not_checked(template, "networkInterfaces", then=then)
        return
    for key in ("vpcSecurityGroupIds", "securityGroupNames"):
        if entries(at(template.props, key)):
            yield violation(
                template,
                f"{key} beside networkInterfaces in launch template {template.name}",
                allowed="security groups inside each interface only",
                why="EC2 refuses a template that has both",
                fix=f"move {key} into networkInterfaces[].securityGroups",
            )
    positions = [_position(interface) for interface in interfaces]
    for index, interface in enumerate(interfaces):
        if at(interface, "subnetId") is not None:
            yield violation(
                template,
                f"a subnet in networkInterfaces[{index}] of launch template {template.name}",
                allowed="no subnetId in an interface",
                why="EKS refuses it: a managed node group's subnets come from the group",
                fix="remove subnetId and give the node group the one subnet of gpuAvailabilityZone",
            )
        yield from _check_position(template, index, interface, positions)


def _position(interface: Value) -> tuple[int | Unknown, int | Unknown]:
    card, device = at(interface, "networkCardIndex"), at(interface, "deviceIndex")
    return (
        UNKNOWN if card is UNKNOWN else number(card) or 0,
        UNKNOWN if device is UNKNOWN else number(device) or 0,
    )


def _check_position(
    template: Resource, index: int, interface: Value, positions: list[tuple[int | Unknown, int | Unknown]]
) -> Iterator[Finding]:
    card, device = positions[index]
    if card is UNKNOWN or device is UNKNOWN:
        yield not_checked(template, f"networkInterfaces[{index}].networkCardIndex or deviceIndex", then="its place")
        return
    kind = at(interface, "interfaceType")
    wrong: str | None = None
    if index == 0 and (card, device) != (0, 0):
        wrong = "the first interface is on network card 0, device index 0"
    elif index == 0 and kind == "efa-only":
        wrong = "the first interface carries IP, so its type is efa or interface, never efa-only"
    elif (card, device) in positions[:index]:
        wrong = "each interface has a network card and device index of its own"
    if wrong is not None:
        yield violation(
            template,
            f"networkInterfaces[{index}] of launch template {template.name} on card {card}, device index {device}, "
            f"type {text(kind) or 'interface'}",
            allowed=wrong,
            why="EC2 refuses the launch, or the node has no address and never joins",
            fix="lay the interfaces out from the instance type: efaInterfaces says how many",
        )


def attached_efa(template: Resource) -> int | Unknown:
    """Count the EFA devices of a launch template."""
    kinds = [at(interface, "interfaceType") for interface in entries(at(template.props, "networkInterfaces"))]
    return UNKNOWN if UNKNOWN in kinds else sum(kind in tokens.EFA_INTERFACES for kind in kinds)


def check_instance_type(graph: Graph) -> Iterator[Finding]:
    """Check that the EFA devices asked for are devices that the instance type has, on cards that carry them."""
    then = "the EFA interfaces are ones that the instance type has"
    for group in node_groups(graph):
        template = group.template
        if template is None:
            if group.efa is not False:
                yield not_checked(group.resource, "the launch template", then=then)
            continue
        if has_efa(template) is False:
            continue
        if attached_efa(template) is UNKNOWN or UNKNOWN in group.instance_types or not group.instance_types:
            yield not_checked(template, "the instance type or the number of EFA interfaces", then=then)
            continue
        for name in group.instance_types:
            facts = INSTANCE_TYPES.get(str(name))
            if facts is None:
                yield not_visible(
                    template,
                    f"instance type {name}",
                    check="aws ec2 describe-instance-types (NetworkInfo)",
                    where=INSTANCE_TABLE,
                )
            else:
                yield from _check_type(template, facts)


def _check_type(template: Resource, facts: InstanceType) -> Iterator[Finding]:
    interfaces = entries(at(template.props, "networkInterfaces"))
    devices = [interface for interface in interfaces if at(interface, "interfaceType") in tokens.EFA_INTERFACES]
    cards = sorted({number(at(interface, "networkCardIndex")) or 0 for interface in devices})
    first = text(at(interfaces[0], "interfaceType"))
    if len(devices) > facts.efa_interfaces:
        yield violation(
            template,
            f"{len(devices)} EFA interfaces for {facts.name}",
            allowed=f"at most {facts.efa_interfaces} EFA interfaces",
            why="EC2 refuses the launch" if facts.efa_interfaces else "the type has no EFA, so NCCL would run over TCP",
            fix=f"set efaInterfaces to {facts.efa_interfaces}"
            if facts.efa_interfaces
            else "set efa to false, or gpuInstanceType",
        )
    elif wrong := [card for card in cards if card not in facts.efa_cards]:
        yield violation(
            template,
            f"EFA interfaces on network cards {', '.join(map(str, wrong))} of {facts.name}",
            allowed=f"network cards {', '.join(map(str, facts.efa_cards))}",
            why="EC2 refuses the launch: the type has no EFA on other cards",
            fix="lay the interfaces out from the instance type: gpuInstanceType and efaInterfaces",
        )
    elif first == "efa" and facts.primary_interface == "interface":
        yield violation(
            template,
            f"a first interface of type efa for {facts.name}",
            allowed="a first interface of type interface, with efa-only devices beside it",
            why="card 0 of this type carries IP on an ENA interface of its own",
            fix="lay the interfaces out from the instance type: gpuInstanceType and efaInterfaces",
        )


RULES = (
    ResourceRule(
        id="efa-interfaces",
        what="EFA interfaces are laid out as EC2 and EKS want them: card 0 device 0 first, groups inside, no subnet.",
        why="EC2 or EKS refuses the template, or the node never joins.",
        fix="Generate the interfaces from the instance type; groups inside, no subnet.",
        check=check_layout,
    ),
    StackRule(
        id="efa-instance-type",
        what="EFA interfaces are ones that the instance type has, in number and by network card.",
        why="EC2 refuses the launch; on a type without EFA, NCCL falls back to TCP.",
        fix="`efaInterfaces`, `efa: false` or another `gpuInstanceType`.",
        check=check_instance_type,
    ),
)
