"""The messages and the service of the language host protocol, without the Pulumi SDK around them.

The stubs lie in the SDK under pulumi/runtime/proto. Importing them the usual way runs the whole SDK first, a second of
work on a small machine, and the engine starts a host several times in a preview. So the directory is made a package of
its own here, by a public name of importlib, and only the four modules in use are loaded.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

_PACKAGE = "efa_ray_train_pulumi_proto"


def _load() -> None:
    sdk = importlib.util.find_spec("pulumi")
    if sdk is None or not sdk.submodule_search_locations:
        raise ModuleNotFoundError(f"the Pulumi SDK is not installed for {sys.executable}; run `make setup`")
    location = f"{sdk.submodule_search_locations[0]}/runtime/proto"
    spec = importlib.machinery.ModuleSpec(_PACKAGE, loader=None, is_package=True)
    spec.submodule_search_locations = [location]
    sys.modules[_PACKAGE] = importlib.util.module_from_spec(spec)


if not TYPE_CHECKING:
    _load()
    language_pb2 = importlib.import_module(f"{_PACKAGE}.language_pb2")
    language_pb2_grpc = importlib.import_module(f"{_PACKAGE}.language_pb2_grpc")
    plugin_pb2 = importlib.import_module(f"{_PACKAGE}.plugin_pb2")

__all__ = ["language_pb2", "language_pb2_grpc", "plugin_pb2"]
