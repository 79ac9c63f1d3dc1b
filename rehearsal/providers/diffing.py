"""What changed between two sets of inputs, and what of it replaces the resource."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from .checking import DEFAULTS
from .values import Properties, Unknown, Value

Kind = Literal["add", "delete", "update"]


@dataclass(frozen=True, slots=True)
class Change:
    """One changed property: its path (`vpcConfig.subnetIds[0]`), what happened, and whether it replaces the resource."""

    path: str
    kind: Kind
    replaces: bool


def changes(old: Properties, new: Properties, *, replace_on: Collection[str], sets: Collection[str]) -> list[Change]:
    """Compare inputs.

    Args:
        old: the inputs that the resource has.
        new: the inputs that it shall have; an unknown one counts as changed.
        replace_on: paths without indexes, such as `launchTemplate.id`; a change at one of them or below it replaces.
        sets: paths of lists whose order means nothing.
    """
    found: list[Change] = []
    _compare(old, new, "", frozenset(sets), found)
    return [Change(change.path, change.kind, replaces=_replaces(change.path, replace_on)) for change in found]


def same(old: Value, new: Value, *, unordered: bool = False) -> bool:
    """Tell whether two values are the same; as sets, when their order means nothing."""
    if unordered and isinstance(old, list) and isinstance(new, list):
        return sorted(map(repr, old)) == sorted(map(repr, new))
    return old == new


def _compare(old: Value, new: Value, path: str, sets: frozenset[str], found: list[Change]) -> None:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted((set(old) | set(new)) - {DEFAULTS}):
            _compare(old.get(key), new.get(key), _joined(path, key), sets, found)
    elif isinstance(old, list) and isinstance(new, list) and not same(old, new, unordered=_plain(path) in sets):
        for index in range(max(len(old), len(new))):
            before = old[index] if index < len(old) else None
            after = new[index] if index < len(new) else None
            _compare(before, after, f"{path}[{index}]", sets, found)
    elif isinstance(old, list) and isinstance(new, list):
        return
    elif isinstance(new, Unknown) or old != new:
        kind: Kind = "add" if old is None else "delete" if new is None else "update"
        found.append(Change(path, kind, replaces=False))


def _joined(path: str, key: str) -> str:
    if re.fullmatch(r"\w+", key):
        return f"{path}.{key}" if path else key
    return f'{path}["{key}"]'


def _plain(path: str) -> str:
    return re.sub(r"\[[^\]]*\]", "", path)


def _replaces(path: str, replace_on: Collection[str]) -> bool:
    plain = _plain(path)
    return any(plain == rule or plain.startswith(f"{rule}.") or rule.startswith(f"{plain}.") for rule in replace_on)
