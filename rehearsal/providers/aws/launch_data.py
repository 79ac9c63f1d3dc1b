"""A launch template's data: from Pulumi's names to the API's, and the combinations that no instance can be launched with."""

from __future__ import annotations

from collections.abc import Mapping

from ..checking import DEFAULTS
from ..values import Props, Unknown, Value
from .kind import pascal

EFA_TYPES = ("efa", "efa-only")
_NAMES = {
    "networkInterfaces": "NetworkInterfaces",
    "securityGroups": "Groups",
    "vpcSecurityGroupIds": "SecurityGroupIds",
    "securityGroupNames": "SecurityGroups",
    "ipv4Addresses": "PrivateIpAddresses",
    "instanceInitiatedShutdownBehavior": "InstanceInitiatedShutdownBehavior",
}
_TOP_LEVEL_ONLY = frozenset(
    {"name", "namePrefix", "tags", "tagsAll", "region", "description", "defaultVersion", "updateDefaultVersion"}
)
_TEXT_FLAGS = frozenset(
    {
        "associatePublicIpAddress",
        "associateCarrierIpAddress",
        "deleteOnTermination",
        "encrypted",
        "ebsOptimized",
        "primaryIpv6",
    }
)
"""Flags that pulumi-aws takes as text, because absent is a third value."""


def to_api(inputs: Props) -> dict[str, object]:
    """Give the LaunchTemplateData of the inputs."""
    return _block({name: value for name, value in inputs.values.items() if name not in _TOP_LEVEL_ONLY})


def _block(values: Mapping[str, Value]) -> dict[str, object]:
    data: dict[str, object] = {}
    for name, value in values.items():
        if name == DEFAULTS or value is None or isinstance(value, Unknown):
            continue
        if name == "tags":
            tags = value if isinstance(value, dict) else {}
            data["Tags"] = [{"Key": key, "Value": item} for key, item in tags.items()]
        elif name in _TEXT_FLAGS and value != "":
            data[pascal(name)] = value if isinstance(value, bool) else value == "true"
        else:
            data[_NAMES.get(name, pascal(name))] = _converted(value)
    return data


def _converted(value: Value) -> object:
    if isinstance(value, dict):
        return _block(value)
    if isinstance(value, list):
        return [_converted(item) for item in value]
    return value


def names_rule(inputs: Props) -> list[tuple[str, str]]:
    """Refuse values that the API has no such choice for."""
    problems: list[tuple[str, str]] = []
    for index, interface in enumerate(inputs.blocks("networkInterfaces")):
        found = interface.text("interfaceType")
        if found and found not in ("interface", *EFA_TYPES):
            path = f"networkInterfaces[{index}].interfaceType"
            problems.append((path, f"{path} must be efa, efa-only or interface, found {found!r}"))
    for path, allowed in (
        ("metadataOptions.httpTokens", ("optional", "required")),
        ("metadataOptions.httpEndpoint", ("disabled", "enabled")),
        ("instanceMarketOptions.marketType", ("capacity-block", "spot")),
        (
            "capacityReservationSpecification.capacityReservationPreference",
            ("capacity-reservations-only", "none", "open"),
        ),
    ):
        if inputs.text(path) and inputs.text(path) not in allowed:
            problems.append((path, f"{path} must be {' or '.join(allowed)}, found {inputs.text(path)!r}"))
    hops = inputs.get("metadataOptions.httpPutResponseHopLimit")
    if isinstance(hops, int) and not 1 <= hops <= 64:
        problems.append(
            ("metadataOptions.httpPutResponseHopLimit", f"httpPutResponseHopLimit must be 1 to 64, found {hops}")
        )
    return problems


def interfaces_rule(inputs: Props) -> list[tuple[str, str]]:
    """Refuse interface settings that EC2 refuses at launch: minutes after an update began, if nothing else says so."""
    interfaces = inputs.blocks("networkInterfaces")
    problems: list[tuple[str, str]] = []
    groups = [name for name in ("vpcSecurityGroupIds", "securityGroupNames") if inputs.get(name)]
    if interfaces and groups:
        problems.append(
            (
                groups[0],
                f"network interfaces and {groups[0]} must not be given together; list the groups in each network interface",
            )
        )
    public = [index for index, interface in enumerate(interfaces) if interface.flag("associatePublicIpAddress")]
    if len(interfaces) > 1 and public:
        path = f"networkInterfaces[{public[0]}].associatePublicIpAddress"
        problems.append(
            (
                path,
                "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces",
            )
        )
    places = [(interface.number("networkCardIndex"), interface.number("deviceIndex")) for interface in interfaces]
    for index, place in enumerate(places):
        if place in places[:index]:
            problems.append(
                (
                    f"networkInterfaces[{index}]",
                    f"two network interfaces at network card {place[0]}, device {place[1]}; each needs its own",
                )
            )
    if interfaces and (0, 0) not in places:
        problems.append(
            ("networkInterfaces", "one network interface must be at network card 0, device 0: the primary one")
        )
    if interfaces and interfaces[0].text("interfaceType") == "efa-only" and places[0] == (0, 0):
        problems.append(
            (
                "networkInterfaces[0].interfaceType",
                "the primary network interface must carry IP: efa or interface, not efa-only",
            )
        )
    return problems


def efa_rule(inputs: Props) -> list[tuple[str, str]]:
    """Refuse more EFA interfaces or network cards than the instance type has."""
    instance_type = inputs.text("instanceType")
    interfaces = inputs.blocks("networkInterfaces")
    efa = [interface for interface in interfaces if interface.text("interfaceType") in EFA_TYPES]
    if not instance_type or not efa:
        return []
    from rehearsal.local_aws.instance_types import network_facts

    facts = network_facts(instance_type)
    if facts is None:
        return [("instanceType", f"instanceType {instance_type!r} is not known to EC2; check the spelling")]
    if facts.efa_interfaces == 0:
        return [
            (
                "networkInterfaces",
                f"EFA interfaces are not supported on {instance_type}; use a type that has EFA, or interfaceType interface",
            )
        ]
    problems: list[tuple[str, str]] = []
    if len(efa) > facts.efa_interfaces:
        problems.append(
            (
                "networkInterfaces",
                f"{instance_type} has at most {facts.efa_interfaces} EFA interfaces, found {len(efa)}",
            )
        )
    problems.extend(
        (
            f"networkInterfaces[{index}].networkCardIndex",
            f"{instance_type} has {facts.network_cards} network cards, indexes 0 to {facts.network_cards - 1}, "
            f"found {interface.number('networkCardIndex')}",
        )
        for index, interface in enumerate(interfaces)
        if interface.number("networkCardIndex") >= facts.network_cards
    )
    return problems
