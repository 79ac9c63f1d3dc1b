"""Property values as the engine sends them: JSON, plus values that are not known yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeAlias, cast

from google.protobuf import struct_pb2

SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
SECRET: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 -- the mark of a secret, not one
ASSET: Final = "c44067f5952c0a294b673a41bacd8c17"
ARCHIVE: Final = "0def7320c3a5731c473e5ecbe6d01bc7"
OUTPUT: Final = "d0e6a833031e9bbcd3f4e8bde6ca49a4"

UNKNOWN_TEXT: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_UNKNOWNS: Final = frozenset(
    {
        UNKNOWN_TEXT,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # flag
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # list
        "030794c1-ac77-496b-92df-f27374a8bd58",  # asset
        "e48ece36-62e2-4504-bad9-02848725956a",  # archive
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
    }
)


class Unknown:
    """A value that only an update will tell."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<unknown>"


UNKNOWN: Final = Unknown()

Value: TypeAlias = "bool | int | float | str | Unknown | list[Value] | dict[str, Value] | None"
Properties: TypeAlias = dict[str, "Value"]


def decode(struct: struct_pb2.Struct) -> Properties:
    """Read a gRPC struct. Secrets are unwrapped: the engine marks outputs of secret inputs by itself, as it does for pulumi-aws."""
    return {key: _decode(value) for key, value in struct.fields.items()}


def encode(properties: Mapping[str, Value]) -> struct_pb2.Struct:
    """Write a gRPC struct; properties that are None are left out."""
    struct = struct_pb2.Struct()
    for key, value in properties.items():
        if value is not None:
            _encode(value, struct.fields[key])
    return struct


def has_unknown(value: Value) -> bool:
    """Tell whether any part of a value is not known yet."""
    if isinstance(value, Unknown):
        return True
    if isinstance(value, list):
        return any(has_unknown(item) for item in value)
    if isinstance(value, dict):
        return any(has_unknown(item) for item in value.values())
    return False


def to_value(found: object) -> Value:
    """Take what an API client answered into a value; times become ISO 8601 text.

    Raises:
        TypeError: a type that is no property value.
    """
    if found is None or isinstance(found, bool | int | float | str):
        return found
    if isinstance(found, Mapping):
        return {str(key): to_value(item) for key, item in cast(Mapping[object, object], found).items()}
    if isinstance(found, list | tuple):
        return [to_value(item) for item in cast(Sequence[object], found)]
    if isinstance(found, datetime):
        return found.isoformat()
    raise TypeError(f"no property value: {type(found).__name__}")


class Props:
    """Typed access to a tree of values: inputs of a resource, or an API's answer.

    A path is names and list indexes joined by dots: `Vpc.VpcId`, `Reservations.0.Instances`. What is absent reads as the empty
    value of its type.
    """

    __slots__ = ("values",)

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.values = values

    def __contains__(self, path: str) -> bool:
        return self.get(path) is not None

    def get(self, path: str) -> Value:
        """Give the value at a path, or None."""
        found: Value | Mapping[str, Value] = self.values
        for part in path.split("."):
            if isinstance(found, Mapping):
                found = found.get(part)
            elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
                found = found[int(part)]
            else:
                return None
        return dict(found) if isinstance(found, Mapping) else found

    def text(self, path: str, default: str = "") -> str:
        """Give a text; numbers and flags are written out."""
        found = self.get(path)
        if isinstance(found, bool):
            return "true" if found else "false"
        return default if found is None or isinstance(found, Unknown | list | dict) else str(found)

    def flag(self, path: str, *, default: bool = False) -> bool:
        """Give a flag; the texts true and false count, as in pulumi-aws."""
        found = self.get(path)
        if isinstance(found, bool):
            return found
        return found == "true" if isinstance(found, str) and found in ("true", "false") else default

    def number(self, path: str, default: int = 0) -> int:
        """Give a whole number."""
        found = self.get(path)
        if isinstance(found, str) and found.isdigit():
            return int(found)
        return int(found) if isinstance(found, int | float) else default

    def texts(self, path: str) -> list[str]:
        """Give the known texts of a list."""
        found = self.get(path)
        return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []

    def block(self, path: str) -> Props:
        """Give a nested object."""
        found = self.get(path)
        return Props(found if isinstance(found, dict) else {})

    def blocks(self, path: str) -> list[Props]:
        """Give the objects of a list."""
        found = self.get(path)
        return [Props(item) for item in found if isinstance(item, dict)] if isinstance(found, list) else []

    def mapping(self, path: str) -> dict[str, str]:
        """Give a map of texts, such as tags."""
        found = self.get(path)
        return (
            {key: str(item) for key, item in found.items() if isinstance(item, str)} if isinstance(found, dict) else {}
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)


def _decode(value: struct_pb2.Value) -> Value:
    match value.WhichOneof("kind"):
        case "null_value" | None:
            return None
        case "bool_value":
            return value.bool_value
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() else number
        case "string_value":
            return UNKNOWN if value.string_value in _UNKNOWNS else value.string_value
        case "list_value":
            return [_decode(item) for item in value.list_value.values]
        case _:
            return _decode_object(decode(value.struct_value))


def _decode_object(found: Properties) -> Value:
    signature = found.get(SIGNATURE)
    if signature == SECRET:
        return found.get("value")
    if signature == OUTPUT:
        return found.get("value", UNKNOWN)
    return found


def _encode(value: Value, into: struct_pb2.Value) -> None:
    if value is None:
        into.null_value = struct_pb2.NULL_VALUE
    elif isinstance(value, bool):
        into.bool_value = value
    elif isinstance(value, int | float):
        into.number_value = value
    elif isinstance(value, str):
        into.string_value = value
    elif isinstance(value, Unknown):
        into.string_value = UNKNOWN_TEXT
    elif isinstance(value, list):
        into.list_value.SetInParent()
        for item in value:
            _encode(item, into.list_value.values.add())
    else:
        into.struct_value.SetInParent()
        for key, item in value.items():
            if item is not None:
                _encode(item, into.struct_value.fields[key])
