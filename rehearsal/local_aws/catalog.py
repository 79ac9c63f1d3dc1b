"""Facts about Regions that the local AWS answers with, also read without a server when a preview needs no more than these.

Zones and instance type offerings are moto's own data files (recorded from the AWS API by its maintainers); what is written here
is what moto does not have.
"""

import gzip
import json
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypedDict

ACCOUNT = "123456789012"
"""The account of the local AWS: moto's default."""

KUBERNETES_VERSIONS = ("1.33", "1.34", "1.35", "1.36")
DEFAULT_KUBERNETES_VERSION = "1.36"

ADDON_VERSIONS = {
    "vpc-cni": ("v1.23.0-eksbuild.1", "v1.22.3-eksbuild.1"),
    "kube-proxy": ("v{minor}.0-eksbuild.4", "v{minor}.0-eksbuild.2"),
    "coredns": ("v1.14.2-eksbuild.3", "v1.14.1-eksbuild.1"),
    "eks-pod-identity-agent": ("v1.3.11-eksbuild.1", "v1.3.10-eksbuild.2"),
    "eks-node-monitoring-agent": ("v1.6.2-eksbuild.1", "v1.6.1-eksbuild.1"),
    "aws-ebs-csi-driver": ("v1.57.0-eksbuild.1",),
    "amazon-cloudwatch-observability": ("v4.10.0-eksbuild.1",),
    "aws-fsx-csi-driver": ("v1.9.0-eksbuild.1",),
}
"""Add-ons by name, newest version first. The names are EKS's; the versions are the rehearsal's own and are shaped like EKS's."""


_ZONE_ID_ORDER = {
    "ap-northeast-1": (4, 1, 2),
    "ap-south-1": (1, 3, 2),
    "ap-southeast-2": (1, 3, 2),
    "eu-west-1": (3, 1, 2),
    "eu-west-2": (2, 3, 1),
    "us-east-1": (6, 1, 2, 4, 3, 5),
    "us-west-1": (3, 1),
    "us-west-2": (2, 1, 3, 4),
}
"""The id numbers of a Region's zones in the order of their letters, where moto's account has them in another order than 1, 2, 3."""


class Offering(TypedDict):
    """One instance type that EC2 offers at one location."""

    InstanceType: str
    Location: str


class Quota(TypedDict):
    """One service quota, as far as the program looks at it."""

    ServiceCode: str
    QuotaCode: str
    QuotaName: str
    Value: float


EC2_QUOTAS: tuple[Quota, ...] = (
    {
        "ServiceCode": "ec2",
        "QuotaCode": "L-DB2E81BA",
        "QuotaName": "Running On-Demand G and VT instances",
        "Value": 192.0,
    },
    {"ServiceCode": "ec2", "QuotaCode": "L-417A185B", "QuotaName": "Running On-Demand P instances", "Value": 768.0},
    {
        "ServiceCode": "ec2",
        "QuotaCode": "L-1216C47A",
        "QuotaName": "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
        "Value": 256.0,
    },
    {
        "ServiceCode": "ec2",
        "QuotaCode": "L-3819A6DF",
        "QuotaName": "All G and VT Spot Instance Requests",
        "Value": 192.0,
    },
    {
        "ServiceCode": "ec2",
        "QuotaCode": "L-7212CCBC",
        "QuotaName": "All P4, P3 and P2 Spot Instance Requests",
        "Value": 192.0,
    },
    {"ServiceCode": "ec2", "QuotaCode": "L-0263D0A3", "QuotaName": "EC2-VPC Elastic IPs", "Value": 5.0},
)
"""Quota names and codes: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html; values are the rehearsal's."""


def zones(region: str) -> tuple[str, ...]:
    """List the Availability Zones of `region` by name, sorted.

    Raises:
        LookupError: moto knows no such Region.
    """
    found = sorted({offering["Location"] for offering in _offerings(region, "availability-zone")})
    # moto recorded offerings of zones that its account does not have.
    return tuple(found[: len(_ZONE_ID_ORDER.get(region, found))])


def zone_id(region: str, zone: str) -> str:
    """Give the id of a zone, in the account of moto; where it has no order of its own, ids follow the names.

    Raises:
        LookupError: the Region has no such zone.
    """
    names = zones(region)
    if zone not in names:
        raise LookupError(f"{region} has no zone {zone!r}; it has {', '.join(names)}")
    ids = sorted({offering["Location"] for offering in _offerings(region, "availability-zone-id")})
    index = names.index(zone)
    if region not in _ZONE_ID_ORDER:
        return ids[index]
    return next(name for name in ids if name.endswith(f"-az{_ZONE_ID_ORDER[region][index]}"))


def offerings(region: str, *, by: str, types: Iterable[str] = (), locations: Iterable[str] = ()) -> list[Offering]:
    """List what EC2 offers in `region`; `by` is region, availability-zone or availability-zone-id; empty filters take all."""
    wanted_types, wanted_locations = frozenset(types), frozenset(locations)
    return [
        offering
        for offering in _offerings(region, by)
        if (not wanted_types or offering["InstanceType"] in wanted_types)
        and (not wanted_locations or offering["Location"] in wanted_locations)
    ]


def addon_versions(name: str, kubernetes: str) -> tuple[str, ...]:
    """List the versions of an add-on for one Kubernetes version, newest first.

    Raises:
        LookupError: EKS has no such add-on, or does not serve this Kubernetes version.
    """
    if name not in ADDON_VERSIONS:
        raise LookupError(f"addon {name} not found; known: {', '.join(sorted(ADDON_VERSIONS))}")
    if kubernetes not in KUBERNETES_VERSIONS:
        raise LookupError(f"Kubernetes {kubernetes} is not served; known: {', '.join(KUBERNETES_VERSIONS)}")
    return tuple(version.format(minor=kubernetes) for version in ADDON_VERSIONS[name])


@cache
def _offerings(region: str, by: str) -> tuple[Offering, ...]:
    folder = moto_folder() / "ec2" / "resources" / "instance_type_offerings" / by
    for path, opened in ((folder / f"{region}.json.gz", gzip.open), (folder / f"{region}.json", open)):
        if path.is_file():
            with opened(path, "rt", encoding="utf-8") as file:
                return tuple(json.loads(file.read()))
    raise LookupError(f"no instance type offerings of Region {region!r} by {by}")


def moto_folder() -> Path:
    """Give the folder of the installed moto, without importing it."""
    # find_spec and not import: moto takes a second to import, and its data files are enough here.
    spec = find_spec("moto")
    if spec is None or spec.origin is None:
        raise LookupError("moto is not installed: install the dependency group `rehearsal`")
    return Path(spec.origin).parent
