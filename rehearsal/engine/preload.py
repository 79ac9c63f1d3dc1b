"""Find out which modules of the provider SDKs a program will import, without running it."""

from __future__ import annotations

import re
from pathlib import Path

_IMPORT = re.compile(r"^import (pulumi_\w+)(?: as (\w+))?$", re.MULTILINE)
_DIRECTORIES = (".", "infra", "workloads")


def sdk_modules(project: Path) -> list[str]:
    """Return `pulumi` and the SDK modules that the program's files name as `alias.module.Class`, sorted.

    A guess that only saves time: a module too many is imported for nothing, one too few is imported by the program.
    """
    found: set[str] = set()
    for directory in _DIRECTORIES:
        for path in sorted((project / directory).glob("*.py")):
            text = path.read_text(encoding="utf-8")
            for package, alias in _IMPORT.findall(text):
                found.add(package)
                uses = re.findall(rf"\b{alias or package}((?:\.[a-z]\w*)+)\.[A-Z]", text)
                found.update(f"{package}{module}" for module in uses)
    return ["pulumi", *sorted(found)]
