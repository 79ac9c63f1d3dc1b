"""Check inputs against the SDK's schema: unknown, missing and wrongly typed properties, nested blocks included."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from .sdk_schema import Property, Type, block_schema
from .values import ARCHIVE, ASSET, SIGNATURE, Properties, Unknown, Value

DEFAULTS = "__defaults"
"""Where pulumi-aws notes which properties it filled in by itself; each object of a block has it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One property that is refused: where it is, and in one line what was found, what is allowed and what to do."""

    path: str
    reason: str


def check(inputs: Properties, schema: Mapping[str, Property], where: str) -> tuple[Properties, list[Problem]]:
    """Check the inputs of a resource; `where` names it in the problems. Gives the inputs in the types of the schema."""
    problems: list[Problem] = []
    checked = _object(inputs, schema, "", where, problems)
    return checked, problems


def unknown_name(name: str, allowed: Mapping[str, Property] | list[str]) -> str:
    """Word that a name is not known: the closest one first, then all."""
    names = sorted(allowed)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"unknown property {name}{hint} (allowed: {', '.join(names)})"


def _object(
    inputs: Properties, schema: Mapping[str, Property], path: str, where: str, problems: list[Problem]
) -> Properties:
    checked: Properties = {}
    for name, value in inputs.items():
        if name == DEFAULTS or value is None:
            continue
        at = f"{path}.{name}" if path else name
        found = schema.get(name)
        if found is None:
            problems.append(Problem(at, f"{where}: {unknown_name(name, schema)}"))
        else:
            checked[name] = _value(value, found.type, at, where, problems)
    for name, wanted in schema.items():
        if wanted.required and name not in checked:
            at = f"{path}.{name}" if path else name
            problems.append(Problem(at, f"{where}: missing required property {at}; give it a value"))
    return checked


def _value(value: Value, wanted: Type, path: str, where: str, problems: list[Problem]) -> Value:
    if isinstance(value, Unknown) or value is None:
        return value
    match wanted.kind:
        case "text":
            if isinstance(value, bool):
                return "true" if value else "false"
            if isinstance(value, int | float):
                return str(value)
            if isinstance(value, str):
                return value
        case "number":
            if isinstance(value, int | float) and not isinstance(value, bool):
                return value
            if isinstance(value, str) and value.lstrip("-").isdigit():
                return int(value)
        case "flag":
            if isinstance(value, bool):
                return value
            if value in ("true", "false"):
                return value == "true"
        case "list":
            if isinstance(value, list):
                element = wanted.element or Type("any")
                return [_value(item, element, f"{path}[{index}]", where, problems) for index, item in enumerate(value)]
        case "map":
            if isinstance(value, dict):
                element = wanted.element or Type("any")
                items = {key: item for key, item in value.items() if key != DEFAULTS and item is not None}
                return {key: _value(item, element, f"{path}[{key!r}]", where, problems) for key, item in items.items()}
        case "block":
            if isinstance(value, dict):
                schema = block_schema(wanted.package, wanted.block)
                return {**_object(value, schema, path, where, problems), DEFAULTS: []}
        case "asset":
            if isinstance(value, dict) and value.get(SIGNATURE) in (ASSET, ARCHIVE):
                return value
        case "any":
            return value
    problems.append(Problem(path, f"{where}: {path} must be a {_word(wanted)}, found {_describe(value)}"))
    return value


def _word(wanted: Type) -> str:
    words = {
        "text": "text",
        "flag": "boolean",
        "block": "object",
        "asset": "asset or archive",
        "list": "list",
        "map": "map of texts",
    }
    return words.get(wanted.kind, wanted.kind)


def _describe(value: Value) -> str:
    if isinstance(value, dict):
        return f"an object with {', '.join(sorted(value)) or 'nothing'}"
    return f"a list of {len(value)}" if isinstance(value, list) else repr(value)
