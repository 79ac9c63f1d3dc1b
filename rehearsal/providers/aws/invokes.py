"""Functions of pulumi-aws: what a program asks before it makes anything.

With a standing local AWS its API answers; without one the same catalog answers directly, so that a preview starts no server.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from rehearsal.local_aws import catalog

from ..errors import OperationError
from ..values import Properties, Props, Value
from .api import Api

PARTITION = "aws"
DNS_SUFFIX = "amazonaws.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One invoke: its arguments, in which Region, and the API."""

    api: Api
    region: str
    arguments: Props


@dataclass(frozen=True, slots=True)
class Invoke:
    """An invoke that the stand-in knows: the arguments that it takes, and how it is answered."""

    allowed: tuple[str, ...]
    answer: Callable[[Question], Properties]


def answer(token: str, question: Question) -> Properties:
    """Answer an invoke.

    Raises:
        OperationError: the stand-in does not have it, or does not have one of its arguments; the text names what it has.
    """
    known = INVOKES.get(token)
    if known is None:
        close = difflib.get_close_matches(token, INVOKES, n=2)
        hint = f"; the closest it has: {', '.join(close)}" if close else ""
        raise OperationError(
            f"the aws stand-in of the rehearsal has no function {token}{hint}; it has: {', '.join(sorted(INVOKES))}"
        )
    for name in question.arguments:
        if name not in known.allowed and question.arguments.get(name) is not None:
            allowed = ", ".join(known.allowed) or "none"
            raise OperationError(f"{token}: the stand-in does not have the argument {name} (it has: {allowed})")
    return known.answer(question)


def _partition(_: Question) -> Properties:
    return {"id": PARTITION, "partition": PARTITION, "dnsSuffix": DNS_SUFFIX, "reverseDnsPrefix": "com.amazonaws"}


def _region(question: Question) -> Properties:
    name = question.region
    return {"id": name, "name": name, "region": name, "description": name, "endpoint": f"ec2.{name}.{DNS_SUFFIX}"}


def _caller(question: Question) -> Properties:
    if question.api.standing:
        found = question.api.call("sts", "GetCallerIdentity", question.region)
        account, arn, user = found.text("Account"), found.text("Arn"), found.text("UserId")
    else:
        account, user = catalog.ACCOUNT, "AKIAIOSFODNN7EXAMPLE"
        arn = f"arn:aws:sts::{account}:user/moto"
    return {"id": account, "accountId": account, "arn": arn, "userId": user}


def _zones(question: Question) -> Properties:
    if question.api.standing:
        found = question.api.call("ec2", "DescribeAvailabilityZones", question.region).blocks("AvailabilityZones")
        pairs = [(zone.text("ZoneName"), zone.text("ZoneId")) for zone in found if zone.text("State") == "available"]
    else:
        pairs = _catalog_zones(question.region)
    excluded = (*question.arguments.texts("excludeNames"), *question.arguments.texts("excludeZoneIds"))
    pairs = sorted(pair for pair in pairs if pair[0] not in excluded and pair[1] not in excluded)
    return {
        **question.arguments.values,
        "id": question.region,
        "region": question.region,
        "names": [name for name, _ in pairs],
        "zoneIds": [zone_id for _, zone_id in pairs],
        "groupNames": [question.region],
    }


def _catalog_zones(region: str) -> list[tuple[str, str]]:
    try:
        return [(name, catalog.zone_id(region, name)) for name in catalog.zones(region)]
    except LookupError as error:
        raise OperationError(f"aws:region: {error}") from error


def _offerings(question: Question) -> Properties:
    arguments = question.arguments
    by = arguments.text("locationType", "region")
    filters = {entry.text("name"): entry.texts("values") for entry in arguments.blocks("filters")}
    if unknown := sorted(set(filters) - {"instance-type", "location"}):
        raise OperationError(
            f"getInstanceTypeOfferings: filters must be instance-type or location, found {unknown[0]!r}"
        )
    if question.api.standing:
        asked = [{"Name": name, "Values": values} for name, values in filters.items()]
        found = question.api.call(
            "ec2", "DescribeInstanceTypeOfferings", question.region, LocationType=by, Filters=asked
        )
        pairs = [
            (entry.text("InstanceType"), entry.text("Location")) for entry in found.blocks("InstanceTypeOfferings")
        ]
    else:
        types, locations = filters.get("instance-type", []), filters.get("location", [])
        offered = catalog.offerings(question.region, by=by, types=types, locations=locations)
        pairs = [(entry["InstanceType"], entry["Location"]) for entry in offered]
    pairs.sort()
    return {
        **arguments.values,
        "id": question.region,
        "region": question.region,
        "instanceTypes": [name for name, _ in pairs],
        "locations": [location for _, location in pairs],
        "locationTypes": [by for _ in pairs],
    }


def _addon_version(question: Question) -> Properties:
    name, kubernetes = question.arguments.text("addonName"), question.arguments.text("kubernetesVersion")
    if question.api.standing:
        found = question.api.call(
            "eks", "DescribeAddonVersions", question.region, addonName=name, kubernetesVersion=kubernetes
        )
        versions = [entry.text("addonVersion") for entry in found.blocks("addons.0.addonVersions")]
    else:
        try:
            versions = list(catalog.addon_versions(name, kubernetes))
        except LookupError as error:
            raise OperationError(f"reading EKS Add-On version info ({name}, {kubernetes}): {error}") from error
    newest = question.arguments.flag("mostRecent")
    # EKS's default version is the oldest that the catalog keeps for a Kubernetes version.
    version: Value = versions[0] if newest else versions[-1]
    return {
        "id": name,
        "addonName": name,
        "kubernetesVersion": kubernetes,
        "mostRecent": newest,
        "region": question.region,
        "version": version,
    }


def _service_principal(question: Question) -> Properties:
    service = question.arguments.text("serviceName")
    name = f"{service}.{DNS_SUFFIX}"
    return {"id": name, "name": name, "serviceName": service, "region": question.region, "suffix": DNS_SUFFIX}


_SAME = ("region",)
INVOKES = {
    "aws:index/getPartition:getPartition": Invoke(("id",), _partition),
    "aws:index/getRegion:getRegion": Invoke(("id", "name", "region", "endpoint"), _region),
    "aws:index/getCallerIdentity:getCallerIdentity": Invoke(("id",), _caller),
    "aws:index/getAvailabilityZones:getAvailabilityZones": Invoke(
        ("excludeNames", "excludeZoneIds", "state", *_SAME), _zones
    ),
    "aws:index/getServicePrincipal:getServicePrincipal": Invoke(("serviceName", *_SAME), _service_principal),
    "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": Invoke(
        ("filters", "locationType", *_SAME), _offerings
    ),
    "aws:eks/getAddonVersion:getAddonVersion": Invoke(
        ("addonName", "kubernetesVersion", "mostRecent", *_SAME), _addon_version
    ),
}
