"""What the network of an instance type can do, from moto's recording of DescribeInstanceTypes, read without importing moto."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from .catalog import moto_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFacts:
    """Network cards and EFA interfaces of an instance type."""

    network_cards: int
    efa_interfaces: int


def network_facts(instance_type: str) -> NetworkFacts | None:
    """Give the facts of a type; None for one that neither moto nor this project's own table knows."""
    recorded = _recorded().get(instance_type)
    if recorded is not None:
        network = recorded.get("NetworkInfo", {})
        supported = network.get("EfaSupported", False)
        return NetworkFacts(
            network_cards=network.get("MaximumNetworkCards", 1),
            efa_interfaces=network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 1) if supported else 0,
        )
    return _own(instance_type)


@cache
def _recorded() -> dict[str, Any]:
    with gzip.open(moto_folder() / "ec2" / "resources" / "instance_types.json.gz", "rt", encoding="utf-8") as file:
        return json.loads(file.read())


def _own(instance_type: str) -> NetworkFacts | None:
    # Types newer than moto's recording: the table that the program itself is built on.
    from infra.instances import INSTANCE_TYPES

    own = INSTANCE_TYPES.get(instance_type)
    return None if own is None else NetworkFacts(network_cards=own.network_cards, efa_interfaces=own.efa_interfaces)
