"""Zones, address ranges and access to the Kubernetes API."""

from collections.abc import Iterator
from ipaddress import IPv4Network

from infra.subnets import gpu_subnet_cidr
from settings.fields import Settings
from settings.problems import Problem
from settings.rules.rule import reads

ADDRESSES_PER_NODE = 32
"""What the VPC CNI keeps warm on a large node: one interface in use and one spare, of up to 16 addresses each that a pod may take."""


@reads("region", "gpu_availability_zone")
def gpu_zone_in_region(settings: Settings) -> Iterator[Problem]:
    """The GPU zone lies in the stack's Region."""
    zone = settings.gpu.gpu_availability_zone
    if zone[:-1] != settings.region:
        yield Problem(
            key="gpuAvailabilityZone",
            found=repr(zone),
            allowed=f"a zone of {settings.region}, as {settings.region}a",
            fix=f"pulumi config set gpuAvailabilityZone {settings.region}{zone[-1]}",
        )


@reads("region", "control_plane_availability_zones")
def control_plane_zones(settings: Settings) -> Iterator[Problem]:
    """The control plane has two or more zones of the Region, each named once."""
    zones = settings.network.control_plane_availability_zones
    outside = [zone for zone in zones if zone[:-1] != settings.region]
    found = ", ".join(zones) or "nothing"
    fix = f"set it to [{settings.region}a, {settings.region}b]"
    if outside:
        yield Problem(
            key="controlPlaneAvailabilityZones",
            found=", ".join(outside),
            allowed=f"zones of {settings.region}",
            fix=fix,
        )
    elif len(set(zones)) < 2 or len(set(zones)) != len(zones):
        yield Problem(
            key="controlPlaneAvailabilityZones",
            found=found,
            allowed="two or more different zones, since EKS asks for two",
            fix=fix,
        )


@reads("vpc_cidr", "service_cidr")
def address_ranges(settings: Settings) -> Iterator[Problem]:
    """The ranges of VPC and Services are well formed, of a fitting size and apart from each other."""
    vpc, service = _network(settings.network.vpc_cidr), _network(settings.network.service_cidr)
    if vpc is None or not vpc.is_private or not 16 <= vpc.prefixlen <= 20:
        yield Problem(
            key="vpcCidr",
            found=repr(settings.network.vpc_cidr),
            allowed="a private IPv4 range of /16 to /20 without host bits",
            fix="set it to 10.0.0.0/16, or to a range that your networks do not use",
        )
    if service is None or not service.is_private or not 12 <= service.prefixlen <= 24:
        yield Problem(
            key="serviceCidr",
            found=repr(settings.network.service_cidr),
            allowed="a private IPv4 range of /12 to /24 without host bits",
            fix="set it to 172.20.0.0/16",
        )
    if vpc and service and vpc.overlaps(service):
        yield Problem(
            key="serviceCidr",
            found=f"{service}, which overlaps vpcCidr {vpc}",
            allowed="a range outside the VPC's",
            fix="set it to 172.20.0.0/16, or move vpcCidr",
        )


@reads("vpc_cidr", "gpu_availability_zone", "gpu_node_count")
def gpu_subnet_holds_nodes(settings: Settings) -> Iterator[Problem]:
    """The GPU subnet has an address for each pod that the nodes may run."""
    vpc = _network(settings.network.vpc_cidr)
    if vpc is None or vpc.prefixlen > 20:
        return
    subnet = gpu_subnet_cidr(vpc, settings.gpu.gpu_availability_zone)
    room = (subnet.num_addresses - 5) // ADDRESSES_PER_NODE  # AWS keeps five addresses of each subnet
    if settings.gpu.gpu_node_count > room:
        yield Problem(
            key="gpuNodeCount",
            found=f"{settings.gpu.gpu_node_count}, with a GPU subnet {subnet}",
            allowed=f"up to {room} nodes at {ADDRESSES_PER_NODE} addresses each",
            fix="take a larger vpcCidr (up to /16) or fewer nodes",
        )


@reads("api_access", "api_public_cidrs")
def api_access(settings: Settings) -> Iterator[Problem]:
    """Who reaches the Kubernetes API was chosen, and is not everyone."""
    access, cidrs = settings.network.api_access, settings.network.api_public_cidrs
    if access == "insideVpc" and cidrs:
        yield Problem(
            key="apiPublicCidrs",
            found=", ".join(cidrs),
            allowed="nothing, since apiAccess is insideVpc",
            fix="remove it, or set apiAccess to publicCidrs",
        )
    if access == "publicCidrs" and not cidrs:
        yield Problem(
            key="apiPublicCidrs",
            found="nothing",
            allowed="the IPv4 ranges that you call the API from, as 203.0.113.7/32",
            fix="name them, or set apiAccess to insideVpc",
        )
    for cidr in cidrs if access == "publicCidrs" else ():
        network = _network(cidr)
        if network is None or network.prefixlen < 8 or (not (network.is_global or is_documentation(network))):
            yield Problem(
                key="apiPublicCidrs",
                found=repr(cidr),
                allowed="public IPv4 ranges of /8 or smaller without host bits, never 0.0.0.0/0",
                fix="name the ranges that you call the API from, as 203.0.113.7/32",
            )


RULES = (gpu_zone_in_region, control_plane_zones, address_ranges, gpu_subnet_holds_nodes, api_access)


def _network(text: str) -> IPv4Network | None:
    try:
        return IPv4Network(text)
    except ValueError:
        return None


def is_documentation(network: IPv4Network) -> bool:
    """Tell whether a range is for examples (RFC 5737): it reaches nobody, and the stack files shipped here use it."""
    return any(
        network.subnet_of(IPv4Network(range_)) for range_ in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
    )
