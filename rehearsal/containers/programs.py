"""What to start for a pod: command, environment and ports, by its role."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rehearsal.containers import ray_command
from rehearsal.containers.environment import container_environment
from rehearsal.containers.pods import PodView
from rehearsal.containers.ray_command import LOOPBACK, RayPorts
from rehearsal.kubernetes import Kubernetes
from rehearsal.processes import free_port

# What KubeRay gives its containers; ray_command moves each to a free port.
AGENT_PORT, CONTROL_STORE_PORT, DASHBOARD_PORT, METRICS_PORT = 52365, 6379, 8265, 8080


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A process that stands for a container."""

    command: list[str]
    environment: Mapping[str, str]
    ports: Mapping[int, int]
    """Container ports to local ones."""
    head: RayPorts | None = None
    """The ports of a Ray head, for its workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What the processes need of this machine and of the rehearsal."""

    kubernetes: Kubernetes
    kubeconfig_for: Callable[[str, str, Sequence[str]], Path]
    """Writes a kubeconfig: (file name, user, groups)."""
    directory: Path
    """For volumes and logs."""
    sessions: Path
    """For Ray's sessions; a short path."""
    operator: Path
    """The operator's binary."""
    proxy: str
    """URL of the service proxy."""
    environment: Mapping[str, str]
    """For Ray nodes: what Pod Identity and the node's network would give, such as credentials and the AWS endpoint."""


def operator_program(host: Host, pod: PodView) -> Program:
    """Return the KubeRay operator of `pod` with the arguments of its container."""
    # Its own service account, so that the chart's RBAC decides what it may do.
    account = f"system:serviceaccount:{pod.namespace}:{pod.spec.serviceAccountName or 'default'}"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{pod.namespace}")
    kubeconfig = host.kubeconfig_for(pod.name, account, groups)
    metrics, health = free_port(), free_port()
    own = [
        f"--metrics-addr={LOOPBACK}:{metrics}",
        f"--health-probe-bind-address={LOOPBACK}:{health}",
        # The lease of a process that was killed would keep its successor waiting, with nobody to elect against.
        "--enable-leader-election=false",
    ]
    environment = {
        **_base(),
        **container_environment(pod, host.kubernetes.secret_value, host.directory / pod.uid),
        "KUBECONFIG": str(kubeconfig),
        "HTTP_PROXY": host.proxy,
    }
    return Program(
        command=[str(host.operator), *(pod.main.args or []), *own],
        environment=environment,
        ports={METRICS_PORT: metrics},
    )


def head_program(host: Host, pod: PodView) -> Program:
    """Return the Ray head of `pod`. Raises UnresolvedError while its token is not there."""
    environment = _ray_environment(host, pod)
    ports = RayPorts(**_node_ports(), control_store=free_port(), dashboard=free_port())
    generated = ray_command.generated_command(environment, pod)
    command = ray_command.head_command(generated, ports, _session(host, pod))
    environment["RAY_ADDRESS"] = f"{LOOPBACK}:{ports.control_store}"
    return Program(command=command, environment=environment, ports=_led(ports), head=ports)


def worker_program(host: Host, pod: PodView, head: RayPorts) -> Program:
    """Return the Ray worker of `pod`, which joins `head`. Raises UnresolvedError while its token is not there."""
    environment = _ray_environment(host, pod)
    ports = RayPorts(**_node_ports())
    generated = ray_command.generated_command(environment, pod)
    command = ray_command.worker_command(generated, ports, _session(host, pod), head)
    environment["RAY_ADDRESS"] = f"{LOOPBACK}:{head.control_store}"
    return Program(command=command, environment=environment, ports=_led(ports))


def _session(host: Host, pod: PodView) -> Path:
    """Return the directory that is /tmp/ray in the pod, made now."""
    session = _tmp(host, pod) / "ray"
    session.mkdir(mode=0o700, parents=True, exist_ok=True)
    return session


def _tmp(host: Host, pod: PodView) -> Path:
    return host.sessions / pod.uid[:8]


def _node_ports() -> dict[str, int]:
    return {name: free_port() for name in ("agent", "agent_grpc", "runtime_env", "metrics")}


def _led(ports: RayPorts) -> dict[int, int]:
    led = {
        AGENT_PORT: ports.agent,
        METRICS_PORT: ports.metrics,
        CONTROL_STORE_PORT: ports.control_store,
        DASHBOARD_PORT: ports.dashboard,
    }
    return {container: local for container, local in led.items() if local}


def _ray_environment(host: Host, pod: PodView) -> dict[str, str]:
    declared = container_environment(pod, host.kubernetes.secret_value, host.directory / pod.uid[:8])
    # The network interface of a pod, which this machine may not have.
    interface = {"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo"}
    own = {
        # /tmp/ray of the pod lies below it, for Ray and for the commands of the stack's outputs; what programs put into /tmp too.
        "RAY_TMPDIR": str(_tmp(host, pod)),
        "TMPDIR": str(_tmp(host, pod)),
        # Keeps Ray to loopback, see ray_start.py.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        # Ray lets its workers give way to everything else on the machine; here they are what is waited for.
        "RAY_worker_niceness": "0",
        # A part of the dashboard has 30 s to start, and the dashboard ends when a busy machine takes longer.
        "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": "300",
    }
    return {**_base(), **declared, **interface, **own, **host.environment}


def _base() -> dict[str, str]:
    """Return the little that a process needs of the machine's own environment: nothing of the user's reaches it."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    return {**kept, "PATH": path}
