"""Which part of the VPC's range each subnet gets: a pure function of range and zone.

The place of a subnet depends on its zone's letter alone, so adding a zone or moving the GPU nodes never renumbers another subnet. The
first quarter of the VPC holds the private subnets of control plane and CPU nodes, the second the public ones, the upper half the GPU
subnets, which are twice as large since large nodes hold many addresses.
"""

from ipaddress import IPv4Network

ZONE_SLOTS = 8
"""Zones of one Region, a to h; the largest Region has six (us-east-1)."""


def private_subnet_cidr(vpc: IPv4Network, zone: str) -> IPv4Network:
    """Return the range for control plane and CPU nodes in `zone`: 1/32 of the VPC."""
    return _slots(vpc, quarter=0)[_slot(zone)]


def public_subnet_cidr(vpc: IPv4Network, zone: str) -> IPv4Network:
    """Return the range for the NAT gateway in `zone`: 1/32 of the VPC."""
    return _slots(vpc, quarter=1)[_slot(zone)]


def gpu_subnet_cidr(vpc: IPv4Network, zone: str) -> IPv4Network:
    """Return the range for the GPU nodes in `zone`: 1/16 of the VPC."""
    half = list(vpc.subnets(prefixlen_diff=1))[1]
    return list(half.subnets(prefixlen_diff=3))[_slot(zone)]


def _slots(vpc: IPv4Network, *, quarter: int) -> list[IPv4Network]:
    return list(list(vpc.subnets(prefixlen_diff=2))[quarter].subnets(prefixlen_diff=3))


def _slot(zone: str) -> int:
    slot = ord(zone[-1]) - ord("a")
    if not 0 <= slot < ZONE_SLOTS:
        raise ValueError(f"zone {zone}: found letter {zone[-1]!r}; allowed: a to h; choose another zone")
    return slot
