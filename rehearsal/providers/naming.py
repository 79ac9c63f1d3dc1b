"""Physical names, as pulumi-aws makes them: the logical name, a hyphen and seven hex digits."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

SUFFIX = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoname:
    """Which property is named automatically, and how long it may be."""

    property: str = "name"
    most: int = 255
    lower: bool = False
    prefix: str = ""
    """What a name must start with, such as `alias/`."""


def physical_name(rule: Autoname, logical: str, seed: bytes) -> str:
    """Make a name that is the same for the same seed: the engine gives preview and update of one plan the same."""
    stem = logical[: rule.most - SUFFIX - 1 - len(rule.prefix)]
    name = f"{rule.prefix}{stem}-{hashlib.sha256(seed).hexdigest()[:SUFFIX]}"
    return name.lower() if rule.lower else name
