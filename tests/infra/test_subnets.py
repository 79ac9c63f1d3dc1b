"""Where each subnet lies in the VPC."""

from ipaddress import IPv4Network
from itertools import combinations

import pytest

from infra.subnets import gpu_subnet_cidr, private_subnet_cidr, public_subnet_cidr

ZONES = [f"us-east-1{letter}" for letter in "abcdefgh"]
PARTS = (private_subnet_cidr, public_subnet_cidr, gpu_subnet_cidr)


@pytest.mark.parametrize("vpc", ["10.0.0.0/16", "10.4.0.0/18", "192.168.16.0/20"])
def test_subnets_of_all_zones_lie_apart_inside_the_vpc(vpc: str) -> None:
    network = IPv4Network(vpc)
    subnets = [part(network, zone) for part in PARTS for zone in ZONES]
    assert all(subnet.subnet_of(network) for subnet in subnets)
    assert not [pair for pair in combinations(subnets, 2) if pair[0].overlaps(pair[1])]


def test_a_zone_keeps_its_ranges_whatever_other_zones_are_used() -> None:
    vpc = IPv4Network("10.0.0.0/16")
    found = [str(part(vpc, "us-east-2b")) for part in PARTS]
    assert found == ["10.0.8.0/21", "10.0.72.0/21", "10.0.144.0/20"]


def test_a_zone_without_a_slot_is_refused() -> None:
    with pytest.raises(ValueError, match="zone us-east-1i: found letter 'i'; allowed: a to h;"):
        gpu_subnet_cidr(IPv4Network("10.0.0.0/16"), "us-east-1i")
