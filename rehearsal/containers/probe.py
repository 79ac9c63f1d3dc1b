"""A container's readiness probe, asked as the kubelet asks it, at the local ports of its process."""

from __future__ import annotations

import http.client
from collections.abc import Mapping

from lightkube.models.core_v1 import Container

from rehearsal.containers.ray_command import LOOPBACK

_TIMEOUT_S = 2.0


def is_ready(container: Container, ports: Mapping[int, int]) -> bool:
    """Return whether the process is ready, by the HTTP probe of its container; one without such a probe is ready at once.

    `ports` leads from container ports to local ones.
    """
    probe = container.readinessProbe.httpGet if container.readinessProbe else None
    if probe is None:
        return True
    port = probe.port
    if isinstance(port, str):
        named = {entry.name: entry.containerPort for entry in container.ports or []}
        port = named[port]
    connection = http.client.HTTPConnection(LOOPBACK, ports[port], timeout=_TIMEOUT_S)
    try:
        connection.request("GET", probe.path or "/")
        # The kubelet's own rule: https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/
        return 200 <= connection.getresponse().status < 400
    except OSError:
        return False
    finally:
        connection.close()
