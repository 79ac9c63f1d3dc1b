"""Find an instance type by its name."""

from difflib import get_close_matches

from infra.instances.instance_type import InstanceType
from infra.instances.table import INSTANCE_TYPES


class UnknownInstanceTypeError(ValueError):
    """An instance type that the table has no row for."""


def instance(name: str) -> InstanceType:
    """Return the facts of an instance type.

    Raises UnknownInstanceTypeError, one line that names the nearest known types.
    """
    found = INSTANCE_TYPES.get(name)
    if found is not None:
        return found
    family = name.partition(".")[0]
    sisters = [known for known, facts in INSTANCE_TYPES.items() if facts.family == family]
    nearest = get_close_matches(name, INSTANCE_TYPES, n=3, cutoff=0.6) or sisters[:3] or list(INSTANCE_TYPES)[-3:]
    raise UnknownInstanceTypeError(
        f"instance type: found {name!r}, which has no row in infra/instances/table.py; "
        f"nearest known: {', '.join(nearest)}; "
        f"use one of the {len(INSTANCE_TYPES)} known types or add a row with its source"
    )
