"""Faults on demand: what the local AWS answers instead of capacity, for drills.

The environment variable EFA_RAY_TRAIN_FAULTS names a JSON file, read anew at each request that could meet a fault:

    {"faults": [{"at": "nodegroup", "code": "InsufficientInstanceCapacity", "instanceType": "g6.12xlarge",
                 "zone": "us-east-2b", "times": 1, "limit": 0}]}

`at` is nodegroup, reservation or object (a write to a bucket); `code` one of CODES; `instanceType` and `zone`, for an object
`keyPrefix`, narrow it, when given; `times` is how often it strikes (absent: always); `limit` is the vCPU limit that VcpuLimitExceeded
quotes.
"""

import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from moto.ec2.exceptions import EC2ClientError

from . import catalog

VARIABLE = "EFA_RAY_TRAIN_FAULTS"
CODES = ("InsufficientInstanceCapacity", "VcpuLimitExceeded", "Unsupported", "NodeCreationFailure", "StorageFull")
PLACES = ("nodegroup", "reservation", "object")
KEYS = frozenset({"at", "code", "instanceType", "zone", "keyPrefix", "times", "limit"})

_lock = threading.Lock()
_struck: dict[tuple[str, int], int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of the faults file."""

    at: str
    code: str
    instance_type: str = ""
    zone: str = ""
    key_prefix: str = ""
    times: int | None = None
    limit: int = 0


def load(path: Path) -> list[Fault]:
    """Read a faults file.

    Raises:
        ValueError: the file is no such JSON, or holds a key or value that is not allowed; the text names it.
    """
    document: object = json.loads(path.read_text(encoding="utf-8"))
    entries: object = cast(dict[str, object], document).get("faults") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ValueError(f'{path}: expected {{"faults": [...]}}')  # noqa: TRY004 -- a wrong file, not a wrong argument
    faults: list[Fault] = []
    for index, entry in enumerate(cast(list[dict[str, Any]], entries)):
        where = f"{path}: faults[{index}]"
        if unknown := sorted(set(entry) - KEYS):
            raise ValueError(f"{where}.{unknown[0]}: unknown key; allowed: {', '.join(sorted(KEYS))}")
        if entry.get("at") not in PLACES:
            raise ValueError(f"{where}.at: found {entry.get('at')!r}; allowed: {', '.join(PLACES)}")
        if entry.get("code") not in CODES:
            raise ValueError(f"{where}.code: found {entry.get('code')!r}; allowed: {', '.join(CODES)}")
        faults.append(
            Fault(
                at=entry["at"],
                code=entry["code"],
                instance_type=entry.get("instanceType", ""),
                zone=entry.get("zone", ""),
                key_prefix=entry.get("keyPrefix", ""),
                times=entry.get("times"),
                limit=entry.get("limit", 0),
            )
        )
    return faults


def take(at: str, *, instance_type: str = "", zone: str = "", key: str = "") -> Fault | None:
    """Give the first fault that is set for this request, and count that it struck."""
    path = os.environ.get(VARIABLE)
    if not path or not Path(path).is_file():
        return None
    for index, fault in enumerate(load(Path(path))):
        if fault.at != at or fault.instance_type not in ("", instance_type) or fault.zone not in ("", zone):
            continue
        if not key.startswith(fault.key_prefix):
            continue
        with _lock:
            struck = _struck.get((path, index), 0)
            if fault.times is not None and struck >= fault.times:
                continue
            _struck[path, index] = struck + 1
        return fault
    return None


def message(fault: Fault, region: str, instance_type: str, zones: list[str]) -> str:
    """Word a fault as EC2 does; the wordings are those of public reports (karpenter-provider-aws#3372, containers-roadmap#2204)."""
    zone = zones[0]
    others = ", ".join(_other_zones(region, instance_type, zones))
    if fault.code == "InsufficientInstanceCapacity":
        return (
            f"We currently do not have sufficient {instance_type} capacity in the Availability Zone you requested ({zone}). "
            "Our system will be working on provisioning additional capacity. "
            f"You can currently get {instance_type} capacity by not specifying an Availability Zone in your request "
            f"or choosing {others}."
        )
    if fault.code == "VcpuLimitExceeded":
        return (
            f"You have requested more vCPU capacity than your current vCPU limit of {fault.limit} allows for the instance bucket "
            "that the specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an "
            "adjustment to this limit."
        )
    if fault.code == "Unsupported":
        return unsupported(region, instance_type, zone)
    return "Instances failed to join the kubernetes cluster"


def unsupported(region: str, instance_type: str, zone: str) -> str:
    """Word that a zone does not offer a type, as EC2 does (eksctl-io/eksctl#6461)."""
    return (
        f"Your requested instance type ({instance_type}) is not supported in your requested Availability Zone ({zone}). "
        "Please retry your request by not specifying an Availability Zone or choosing "
        f"{', '.join(_other_zones(region, instance_type, [zone]))}."
    )


def unoffered(region: str, instance_type: str, zones: list[str]) -> str | None:
    """Name the first zone that does not offer the type, or None."""
    offered = {
        offering["Location"] for offering in catalog.offerings(region, by="availability-zone", types=[instance_type])
    }
    return next((zone for zone in zones if zone not in offered), None)


def refuse_unoffered(region: str, instance_type: str, zones: list[str]) -> None:
    """Refuse a type in a zone that does not offer it.

    Raises:
        EC2ClientError: code Unsupported.
    """
    zone = unoffered(region, instance_type, zones)
    if zone is not None:
        raise EC2ClientError("Unsupported", unsupported(region, instance_type, zone))


def _other_zones(region: str, instance_type: str, zones: list[str]) -> list[str]:
    offered = catalog.offerings(region, by="availability-zone", types=[instance_type])
    return sorted({offering["Location"] for offering in offered} - set(zones))
