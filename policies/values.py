"""Property values as the engine sends them, with unknowns kept as values instead of exceptions."""

from collections.abc import Mapping, Sequence
from enum import Enum
from fractions import Fraction
from typing import Final, TypeAlias


class Unknown(Enum):
    """Mark a value that the update alone will know: it comes from a resource that is not made yet."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN

Value: TypeAlias = "bool | int | float | str | Unknown | Sequence[Value] | Mapping[str, Value] | None"
Properties: TypeAlias = Mapping[str, Value]


def at(value: Value, *path: str | int) -> Value:
    """Follow `path` into `value`.

    Returns None where a step is absent and UNKNOWN where a step is unknown: what lies below is not known either.
    """
    for step in path:
        if value is UNKNOWN:
            return UNKNOWN
        if isinstance(value, Mapping):
            value = value.get(str(step))
        elif isinstance(step, int) and isinstance(value, Sequence) and not isinstance(value, str):
            value = value[step] if step < len(value) else None
        else:
            return None
    return value


def entries(value: Value) -> list[Value]:
    """List the elements of `value`; absent is empty, anything that is no list is one element (UNKNOWN included)."""
    if value is None:
        return []
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    return [value]


def fields(value: Value) -> dict[str, Value]:
    """Copy the fields of an object; anything else has none."""
    return dict(value) if isinstance(value, Mapping) else {}


def text(value: Value) -> str | None:
    """Return `value` when it is a non-empty string."""
    return value if isinstance(value, str) and value else None


def truth(value: Value) -> bool | Unknown:
    """Read a flag that providers carry as a boolean or as the words "true" and "false"; absent is False."""
    if value is UNKNOWN:
        return UNKNOWN
    return value is True or (isinstance(value, str) and value.lower() == "true")


def number(value: Value) -> int | None:
    """Read a whole number that may be carried as a number or as a decimal string."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.strip().lstrip("-").isdigit():
        return int(value)
    return None


_SUFFIXES: Final[Mapping[str, Fraction]] = {
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate(["k", "M", "G", "T", "P"], start=1)},
    **{suffix: Fraction(1024**power) for power, suffix in enumerate(["Ki", "Mi", "Gi", "Ti", "Pi"], start=1)},
}


def quantity(value: Value) -> Fraction | None:
    """Read a Kubernetes quantity, so that `40`, `"40"` and `"40000m"` are one amount; None when it is no quantity.

    Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return Fraction(str(value))
    if not isinstance(value, str):
        return None
    digits = value.rstrip("".join(sorted(set("".join(_SUFFIXES)))))
    suffix = value[len(digits) :]
    if suffix not in _SUFFIXES or not digits.replace(".", "", 1).isdigit():
        return None
    return Fraction(digits) * _SUFFIXES[suffix]


def show(value: Value) -> str:
    """Word a value for a message."""
    if value is UNKNOWN:
        return "a value known only at up"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    return str(value)
