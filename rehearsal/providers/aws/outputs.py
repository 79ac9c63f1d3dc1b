"""A resource's outputs: at preview, after an operation, and what a refresh makes of its inputs."""

from __future__ import annotations

import json

from ..checking import DEFAULTS
from ..diffing import same
from ..sdk_schema import ResourceSchema
from ..values import UNKNOWN, Properties, Value
from .kind import Kind


def previewed(inputs: Properties, schema: ResourceSchema) -> Properties:
    """Foretell the outputs of a creation: the inputs, and unknown for whatever the API will add."""
    outputs = _without_defaults(inputs)
    for name, output in schema.outputs.items():
        if output.required and outputs.get(name) is None:
            outputs[name] = UNKNOWN
    return outputs


def previewed_update(kind: Kind, state: Properties, inputs: Properties, old: Properties) -> Properties:
    """Foretell the outputs of an update: those that it has, overlaid with the new inputs."""
    outputs = {**state, **_without_defaults(inputs)}
    for name in set(old) - set(inputs):
        outputs.pop(name, None)
    if any(old.get(name) != inputs.get(name) for name in (set(old) | set(inputs)) - {"tags", "tagsAll", DEFAULTS}):
        outputs |= dict.fromkeys(kind.recomputed, UNKNOWN)
    return outputs


def combined(inputs: Properties, live: Properties) -> Properties:
    """Give the outputs: the inputs, overlaid with what the API says."""
    outputs = {**_without_defaults(inputs), **live}
    if "tags" in live:
        outputs["tagsAll"] = live["tags"] or {}
    return {name: value for name, value in outputs.items() if value is not None}


def refreshed(inputs: Properties, live: Properties, kind: Kind) -> Properties:
    """Give the inputs with what the API says now, where it says something else: drift that the next update undoes."""
    found = dict(inputs)
    for name, value in inputs.items():
        if name in live and name != DEFAULTS:
            found[name] = _drifted(value, live[name], unordered=name in kind.sets)
    if "tags" in live and inputs.get("tags") is None and live["tags"]:
        found["tags"] = live["tags"]
    if "tagsAll" in found or "tags" in found:
        found["tagsAll"] = found.get("tags") or {}
    return {name: value for name, value in found.items() if value is not None}


def imported(live: Properties, schema: ResourceSchema) -> Properties:
    """Give the inputs of a resource that the state did not know."""
    found: Properties = {
        name: value for name, value in live.items() if name in schema.inputs and value not in (None, "", [], {})
    }
    return {**found, DEFAULTS: []}


def _drifted(old: Value, live: Value, *, unordered: bool) -> Value:
    if same(old, live, unordered=unordered) or _same_document(old, live):
        return old
    if isinstance(old, dict) and isinstance(live, dict) and DEFAULTS in old:
        # A block: only what was given counts; the API adds what it computed.
        return {
            key: value if key == DEFAULTS else _drifted(value, live.get(key), unordered=unordered)
            for key, value in old.items()
        }
    if isinstance(old, list) and isinstance(live, list) and len(old) == len(live):
        return [_drifted(before, after, unordered=unordered) for before, after in zip(old, live, strict=True)]
    return live


def _same_document(old: Value, live: Value) -> bool:
    if not (isinstance(old, str) and isinstance(live, str) and old.startswith("{")):
        return False
    try:
        return json.loads(old) == json.loads(live)
    except ValueError:
        return False


def _without_defaults(value: Properties) -> Properties:
    return {name: _stripped(item) for name, item in value.items() if name != DEFAULTS and item is not None}


def _stripped(value: Value) -> Value:
    if isinstance(value, dict):
        return _without_defaults(value)
    return [_stripped(item) for item in value] if isinstance(value, list) else value
