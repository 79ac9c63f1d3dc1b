"""`ray start` on loopback: run as a script with the arguments of `ray`.

Where Ray is told 127.0.0.1 it takes this machine's outward address and listens on every interface. The variable
RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 keeps it to loopback, as on macOS and Windows, and makes `ray start` refuse a second node: here
that one check is lifted.
What a job does not need and costs a process is left out: the Ray client's server, and the dashboard's parts for Ray Data, Ray Serve,
events and a Grafana that is not there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, cast

import ray._private.ray_constants as constants
import ray._private.services as services
import ray.scripts.scripts as scripts

_DASHBOARD = "dashboard"
_DASHBOARD_PARTS = ("JobHead", "NodeHead", "ReportHead", "StateHead", "TrainHead", "UsageStatsHead")


def _loopback(_address: str | None = None) -> str:
    return "127.0.0.1"


def _no_client() -> str:
    return "not part of a rehearsal"


def _with_fewer_parts(start: Callable[..., object]) -> Callable[..., object]:
    """Return Ray's own function that starts a process, which starts the dashboard with the parts that are wanted."""

    def start_process(command: list[str], process_type: str, *arguments: object, **options: object) -> object:
        if process_type == _DASHBOARD:
            command = [*command, f"--modules-to-load={','.join(_DASHBOARD_PARTS)}"]
        return start(command, process_type, *arguments, **options)

    return start_process


def main() -> None:
    """Run `ray` with the arguments of this script."""
    # Names that Ray has for itself; a Ray without them has to be looked at anew.
    wanted = (
        (constants, "ENABLE_RAY_CLUSTER"),
        (services, "get_node_ip_address"),
        (services, "start_ray_process"),
        (scripts, "get_ray_client_dependency_error"),
    )
    for module, name in wanted:
        if not hasattr(module, name):
            sys.exit(f"ray: {module.__name__} has no {name}; the rehearsal knows Ray 2.58: install what uv.lock pins")
    cast(Any, constants).ENABLE_RAY_CLUSTER = True
    cast(Any, services).get_node_ip_address = _loopback
    cast(Any, services).start_ray_process = _with_fewer_parts(cast(Any, services).start_ray_process)
    cast(Any, scripts).get_ray_client_dependency_error = _no_client
    cast(Any, scripts).main()


if __name__ == "__main__":
    main()
