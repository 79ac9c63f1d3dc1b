"""Import the protocol of the Pulumi SDK without the SDK."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

PACKAGES = ("pulumi", "pulumi.runtime")


def skip_sdk() -> None:
    """Make `pulumi.runtime.proto` importable without running the packages above it, which take a second to import.

    For a process that serves the protocol and makes no resource itself. Does nothing where the SDK is imported already.
    """
    if "pulumi" in sys.modules:
        return
    spec = find_spec("pulumi")
    if spec is None or spec.origin is None:
        raise LookupError("the Python package pulumi is not installed")
    root = Path(spec.origin).parent
    for name in PACKAGES:
        module = ModuleType(name)
        module.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = module
