"""Start a Kubernetes control plane on loopback, with kwok in the place of kubelets."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rehearsal.cluster import commands
from rehearsal.cluster.api import Api
from rehearsal.cluster.bootstrap import KWOK_USER, create_first_objects, why_not_served
from rehearsal.cluster.certificates import ADMIN, ADMIN_USER, Authority, KeyPair, write_pki
from rehearsal.cluster.kubeconfigs import kubeconfig, write_kubeconfig
from rehearsal.cluster.layout import SERVICE_ADDRESS, Files, Ports
from rehearsal.cluster.programs import Programs
from rehearsal.cluster.stages import stages
from rehearsal.processes import Supervisor

if TYPE_CHECKING:
    from lightkube import Client

_TIMEOUT_S = 60.0
"""Until a program has to be ready: ten times what it takes, for a machine that has other things to do."""
_GRACE_S = 2.0

ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER, KWOK = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
)
_USERS: Mapping[str, tuple[str, Sequence[str]]] = {
    # These two have the rights that Kubernetes itself gives to these names.
    CONTROLLER_MANAGER: ("system:kube-controller-manager", ()),
    SCHEDULER: ("system:kube-scheduler", ()),
    KWOK: (KWOK_USER, ()),
}
_COLLECT, _COLLECT_API_SERVER = "50", "200"
"""Growth of the heap in percent between two collections of Go's garbage: little memory for a little more time.

The API server has little to keep and much to throw away: four large definitions of KubeRay cost it 24 CPU-seconds at 50 and 11 at 200.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCluster:
    """A cluster that runs; every part of it is a process of `supervisor`."""

    files: Files
    ports: Ports
    programs: Programs
    supervisor: Supervisor

    @property
    def endpoint(self) -> str:
        """Return the URL of the API server."""
        return f"https://{commands.LOOPBACK}:{self.ports.api_server}"

    @property
    def kubeconfig(self) -> Path:
        """Return the kubeconfig file of an administrator, for kubectl and everything else."""
        return self.files.kubeconfig(ADMIN)

    @property
    def kubectl(self) -> Path:
        """Return the kubectl of the cluster's own version."""
        return self.programs.kubectl

    def client(self) -> Client:
        """Return a lightkube client of an administrator."""
        # Imported here: it takes most of a second, which those who only start a cluster need not wait for.
        from lightkube import Client, KubeConfig

        return Client(KubeConfig.from_file(str(self.kubeconfig)), trust_env=False)

    def kubeconfig_for(self, name: str, user: str, groups: Sequence[str] = ()) -> Path:
        """Write NAME.kubeconfig for any user and return it.

        For a service account `user` is system:serviceaccount:NAMESPACE:NAME, and `groups` are system:serviceaccounts and
        system:serviceaccounts:NAMESPACE: it then has the rights that its role bindings give it, and no others.
        """
        pair = Authority.read(self.files.pki).client(user, groups)
        return _write_kubeconfig(self.files, self.ports, name, user, pair)

    def start_api_server(self) -> None:
        """Start the API server and wait until it is ready. Raises RehearsalError when it does not become so."""
        _launch_api_server(self)
        _wait(self, API_SERVER)

    def stop_api_server(self) -> None:
        """Kill the API server, as a crash would: what runs goes on without it, and finds it again once it is started."""
        self.supervisor.stop(API_SERVER, grace=0)

    def stop(self) -> None:
        """Stop everything that belongs to the cluster. Nothing in it is worth a graceful end: a start begins anew."""
        for name in (KWOK, SCHEDULER, CONTROLLER_MANAGER, API_SERVER, ETCD):
            self.supervisor.stop(name, grace=0)


def start_cluster(directory: Path, programs: Programs, supervisor: Supervisor) -> LocalCluster:
    """Start a new cluster whose files are in `directory`, and wait until every part of it is ready.

    What an earlier cluster has left in `directory` is removed, its keys and objects too. Raises RehearsalError, with the last
    lines of the log, when a part does not become ready; nothing is left running then.
    """
    files, ports = Files(directory), Ports()
    _prepare(files, ports)
    cluster = LocalCluster(files=files, ports=ports, programs=programs, supervisor=supervisor)
    try:
        _launch(cluster, ETCD, commands.etcd_command(programs, files))
        # It waits for etcd by itself, and has enough to do until then.
        _launch_api_server(cluster)
        _wait_etcd(cluster)
        _wait(cluster, API_SERVER)
        api = _api(files)
        create_first_objects(api, ports.api_server)
        _launch(cluster, SCHEDULER, commands.scheduler_command(programs, files, ports))
        _launch(cluster, CONTROLLER_MANAGER, commands.controller_manager_command(programs, files, ports))
        supervisor.running[API_SERVER].wait_ready(lambda: why_not_served(api, ports.api_server), _TIMEOUT_S)
        _launch(cluster, KWOK, commands.kwok_command(programs, files, ports))
        for name in (KWOK, SCHEDULER, CONTROLLER_MANAGER):
            _wait(cluster, name)
    except BaseException:
        cluster.stop()
        raise
    return cluster


def _prepare(files: Files, ports: Ports) -> None:
    """Write everything that the programs read."""
    files.directory.mkdir(parents=True, exist_ok=True)
    # Whoever can enter it can read and write all of etcd.
    files.directory.chmod(0o700)
    files.etcd_socket.unlink(missing_ok=True)
    for leftover in (files.pki.directory, files.etcd):
        shutil.rmtree(leftover, ignore_errors=True)
    write_pki(files.pki.directory, service_address=SERVICE_ADDRESS)
    pair = KeyPair(files.pki.certificate(ADMIN).read_bytes(), files.pki.key(ADMIN).read_bytes())
    _write_kubeconfig(files, ports, ADMIN, ADMIN_USER, pair)
    for name, (user, groups) in _USERS.items():
        _write_kubeconfig(files, ports, name, user, Authority.read(files.pki).client(user, groups))
    files.scheduler_configuration.write_text(json.dumps(commands.scheduler_configuration(files)), encoding="utf-8")
    # A file of YAML documents, each of which may be JSON.
    files.kwok_configuration.write_text("\n---\n".join(map(json.dumps, stages())), encoding="utf-8")


def _write_kubeconfig(files: Files, ports: Ports, name: str, user: str, pair: KeyPair) -> Path:
    endpoint = f"https://{commands.LOOPBACK}:{ports.api_server}"
    document = kubeconfig(endpoint, files.pki.authority.read_bytes(), user, pair)
    return write_kubeconfig(files.kubeconfig(name), document)


def _launch_api_server(cluster: LocalCluster) -> None:
    _launch(cluster, API_SERVER, commands.api_server_command(cluster.programs, cluster.files, cluster.ports))


def _launch(cluster: LocalCluster, name: str, command: Sequence[str]) -> None:
    # No setting of the user's takes part: not another kubeconfig, not a proxy. The programs that `kubectl exec` starts are
    # looked up on this PATH: first where this Python is.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    collect = _COLLECT_API_SERVER if name == API_SERVER else _COLLECT
    environment = {"PATH": path, "HOME": str(cluster.files.directory), "GOGC": collect, "GOMEMLIMIT": "700MiB"}
    cluster.supervisor.launch(name, command, env=environment, cwd=cluster.files.directory)


def _wait_etcd(cluster: LocalCluster) -> None:
    socket = cluster.files.etcd_socket
    etcd = cluster.supervisor.running[ETCD]
    etcd.wait_ready(lambda: None if socket.exists() else f"no socket {socket}", _TIMEOUT_S)


def _wait(cluster: LocalCluster, name: str) -> None:
    ports = cluster.ports
    port, path = {
        API_SERVER: (ports.api_server, "/readyz"),
        CONTROLLER_MANAGER: (ports.controller_manager, "/healthz"),
        SCHEDULER: (ports.scheduler, "/readyz"),
        KWOK: (ports.kwok, "/readyz"),
    }[name]
    api = _api(cluster.files)
    cluster.supervisor.running[name].wait_ready(lambda: api.why_unwell(port, path), _TIMEOUT_S)


def _api(files: Files) -> Api:
    return Api(files.pki.authority, files.pki.certificate(ADMIN), files.pki.key(ADMIN))
