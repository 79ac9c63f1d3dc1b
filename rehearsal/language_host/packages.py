"""What is installed for this Python: its distributions, and the provider plugins that they want."""

from __future__ import annotations

import importlib.metadata
import json
import sysconfig
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RequiredPlugin:
    """A resource provider that an installed Pulumi package wants."""

    name: str
    version: str
    server: str


def required_plugins(site_packages: Path | None = None) -> list[RequiredPlugin]:
    """Return the providers of the installed Pulumi packages, sorted by name.

    Source: each Pulumi SDK package carries a pulumi-plugin.json with `resource`, `name`, `version` and, for a provider
    that lies elsewhere than at Pulumi's own download site, `server`.
    """
    directory = site_packages or Path(sysconfig.get_path("purelib"))
    plugins: list[RequiredPlugin] = []
    for path in directory.glob("*/pulumi-plugin.json"):
        described: dict[str, str | bool] = json.loads(path.read_text(encoding="utf-8"))
        if described.get("resource"):
            name = described.get("name") or path.parent.name.removeprefix("pulumi_").replace("_", "-")
            version = str(described.get("version", "")).removeprefix("v")
            plugins.append(
                RequiredPlugin(str(name), f"v{version}" if version else "", str(described.get("server", "")))
            )
    return sorted(plugins, key=lambda plugin: plugin.name)


def installed_distributions(*, transitive: bool) -> list[tuple[str, str]]:
    """Return (name, version) of the installed distributions, sorted; without `transitive` only those no other wants."""
    found: dict[str, str] = {}
    wanted: set[str] = set()
    for distribution in importlib.metadata.distributions():
        found[_canonical(distribution.name)] = distribution.version
        for requirement in distribution.requires or ():
            if "extra ==" not in requirement:
                wanted.add(_canonical(_leading_name(requirement)))
    return sorted((name, version) for name, version in found.items() if transitive or name not in wanted)


def _leading_name(requirement: str) -> str:
    end = next((i for i, char in enumerate(requirement) if not (char.isalnum() or char in "-_.")), len(requirement))
    return requirement[:end]


def _canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
