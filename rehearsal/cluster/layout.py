"""Where the files and ports of one cluster are."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rehearsal.cluster.certificates import Pki
from rehearsal.processes.ports import free_port

SERVICE_RANGE = "172.20.0.0/16"
"""What EKS takes for services where the VPC lies in 10.0.0.0/8.

Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_KubernetesNetworkConfigRequest.html.
"""
SERVICE_ADDRESS = "172.20.0.1"
"""Address of the `kubernetes` service: the first of the range."""
POD_RANGE = "100.64.0.0/16"
"""Addresses of the pods in which nothing runs, out of the block that belongs to nobody's network (RFC 6598)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ports of 127.0.0.1 that the servers of a cluster listen on."""

    api_server: int = field(default_factory=free_port)
    controller_manager: int = field(default_factory=free_port)
    scheduler: int = field(default_factory=free_port)
    kwok: int = field(default_factory=free_port)


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a cluster, below one directory."""

    directory: Path

    @property
    def pki(self) -> Pki:
        """Return the keys."""
        return Pki(self.directory / "pki")

    @property
    def etcd(self) -> Path:
        """Return the directory of etcd's data."""
        return self.directory / "etcd"

    @property
    def etcd_socket(self) -> Path:
        """Return etcd's socket. etcd wants names of host and port, and this is one relative to the directory, which may be long."""
        return self.directory / "etcd:0"

    @property
    def etcd_peer_socket(self) -> Path:
        """Return the socket that etcd keeps for other members."""
        return self.directory / "etcd-peer:0"

    @property
    def scheduler_configuration(self) -> Path:
        """Return the configuration of the scheduler."""
        return self.directory / "kube-scheduler.json"

    @property
    def kwok_configuration(self) -> Path:
        """Return the configuration of kwok, its stages included."""
        return self.directory / "kwok.json"

    def kubeconfig(self, name: str) -> Path:
        """Return the kubeconfig of `admin`, `kube-controller-manager`, `kube-scheduler`, `kwok` or another user."""
        return self.directory / f"{name}.kubeconfig"
