"""Read values out of parsed YAML, whose types are known only by looking."""

from collections.abc import Mapping, Sequence
from typing import cast

from rehearsal.errors import RehearsalError


def as_mapping(value: object) -> Mapping[str, object]:
    """Return a mapping as it is and None as an empty one. Raises RehearsalError for anything else."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RehearsalError(f"manifest: found {value!r}; a mapping is allowed here")
    return cast(Mapping[str, object], value)


def as_list(value: object) -> Sequence[object]:
    """Return a list as it is and None as an empty one. Raises RehearsalError for anything else."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise RehearsalError(f"manifest: found {value!r}; a list is allowed here")
    return cast(list[object], value)


def as_text(value: object) -> str:
    """Return a string as it is. Raises RehearsalError for anything else, such as the boolean of an unquoted `true`."""
    if not isinstance(value, str):
        raise RehearsalError(f"manifest: found {value!r}; a string is allowed here, so quote it")
    return value
