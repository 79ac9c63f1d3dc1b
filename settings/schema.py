"""The config keys that the fields of `Settings` define, with the type that Pulumi.yaml gives each."""

import dataclasses
import functools
import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter
from pydantic.fields import FieldInfo

from settings.fields import Settings

PROJECT = "efa-ray-train"
MISSING: Any = dataclasses.MISSING


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One config key: its name, the group and field that hold it, its type, what it means and its default."""

    name: str
    group: str
    field: str
    annotation: Any
    description: str
    form: str
    """What the key's pattern allows, in words; empty without a pattern."""
    example: str
    default: Any

    @property
    def required(self) -> bool:
        """Tell whether a stack must set the key."""
        return self.default is MISSING

    @property
    def pulumi_type(self) -> str:
        """Return the type that the key has in Pulumi.yaml: string, integer, boolean, array or object."""
        base = get_args(self.annotation)[0]
        base = get_args(base)[0] if get_origin(base) is Annotated else base
        origin = get_origin(base)
        if origin is Literal:
            return "string"
        return {bool: "boolean", int: "integer", str: "string", tuple: "array", dict: "object"}[origin or base]

    def validate(self, raw: object) -> Any:
        """Return the typed value of `raw`.

        Raises:
            pydantic.ValidationError: `raw` is not a value of this key.
        """
        return _adapter(self.name).validate_python(raw)


def groups() -> Mapping[str, type]:
    """Return the settings groups by the name that `Settings` gives them."""
    hints = get_type_hints(Settings)
    return {name: hint for name, hint in hints.items() if isinstance(hint, type) and dataclasses.is_dataclass(hint)}


@functools.cache
def keys() -> Mapping[str, Key]:
    """Return every config key by its name, in the order of the groups."""
    return types.MappingProxyType({key.name: key for group, cls in groups().items() for key in _keys_of(group, cls)})


def _keys_of(group: str, cls: type) -> Iterator[Key]:
    hints = get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        first, *rest = field.name.split("_")
        info = next(item for item in hints[field.name].__metadata__ if isinstance(item, FieldInfo) and item.description)
        yield Key(
            name=first + "".join(word.capitalize() for word in rest),
            group=group,
            field=field.name,
            annotation=hints[field.name],
            description=info.description or "",
            form=info.title or "",
            example=str(info.examples[0]) if info.examples else "VALUE",
            default=field.default_factory() if callable(field.default_factory) else field.default,
        )


@functools.cache
def _adapter(name: str) -> TypeAdapter[Any]:
    # A YAML number under a string key (`runId: 5`) reaches the program as text from the engine and as a number from the file: take both.
    return TypeAdapter(keys()[name].annotation, config=ConfigDict(coerce_numbers_to_str=True))
