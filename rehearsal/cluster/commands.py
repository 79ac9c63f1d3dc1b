"""The command lines of a cluster's programs, out of nothing but files and ports.

They run in the cluster's directory. Everything listens on loopback, speaks TLS and asks for a client certificate, except etcd,
which only the directory's owner can reach, and kwok, which can ask for none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rehearsal.cluster.layout import POD_RANGE, SERVICE_RANGE, Files, Ports
from rehearsal.cluster.programs import Programs

KUBELET_ADDRESS_TYPE: Final = "ExternalDNS"
"""Type of the node address at which kwok answers for the kubelet: one that EKS's nodes without a public address lack."""
LOOPBACK: Final = "127.0.0.1"
CONTROLLERS: Final = (
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "endpoints-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
)
"""Those that what a stack installs can depend on; none that attach volumes, sign certificates or ask a cloud."""
KWOK_KINDS: Final = ("Exec", "Logs", "PortForward")
"""What is told to kwok by objects in the cluster, one for each pod that has a process."""
NODE_LEASE_SECONDS: Final = 40
"""How long a node counts as alive after its last sign of life, kubelet's default.

Source: https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/.
"""


def etcd_command(programs: Programs, files: Files) -> list[str]:
    """Return etcd's: one member, on sockets that only the owner of the cluster's directory reaches.

    Nothing is synced to disk, since a rehearsal that loses power starts anew anyway.
    """
    client, peer = f"unix://{files.etcd_socket.name}", f"unix://{files.etcd_peer_socket.name}"
    return [
        str(programs.etcd),
        "--name=rehearsal",
        f"--data-dir={files.etcd}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=rehearsal={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def api_server_command(programs: Programs, files: Files, ports: Ports) -> list[str]:
    """Return kube-apiserver's: client certificates, RBAC, and kwok as every node's kubelet."""
    pki = files.pki
    return [
        str(programs.kube_apiserver),
        f"--etcd-servers=unix://{files.etcd_socket.name}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={ports.api_server}",
        f"--tls-cert-file={pki.certificate('server')}",
        f"--tls-private-key-file={pki.key('server')}",
        f"--client-ca-file={pki.authority}",
        "--anonymous-auth=false",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki.service_account_key}",
        f"--service-account-signing-key-file={pki.service_account_key}",
        # It mounts tokens into pods, and here are no mounts.
        "--disable-admission-plugins=ServiceAccount",
        # Device plugins are privileged.
        "--allow-privileged=true",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        # An endpoint on loopback is refused, and no pod reaches the API server by its service.
        "--endpoint-reconciler-type=none",
        f"--external-hostname={LOOPBACK}",
        f"--kubelet-preferred-address-types={KUBELET_ADDRESS_TYPE}",
        f"--kubelet-certificate-authority={pki.authority}",
        f"--kubelet-client-certificate={pki.certificate('kubelet-client')}",
        f"--kubelet-client-key={pki.key('kubelet-client')}",
        # One user: nothing to be fair about.
        "--enable-priority-and-fairness=false",
        "--profiling=false",
    ]


def controller_manager_command(programs: Programs, files: Files, ports: Ports) -> list[str]:
    """Return kube-controller-manager's, with CONTROLLERS alone."""
    pki = files.pki
    return [
        str(programs.kube_controller_manager),
        f"--kubeconfig={files.kubeconfig('kube-controller-manager')}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={ports.controller_manager}",
        f"--tls-cert-file={pki.certificate('server')}",
        f"--tls-private-key-file={pki.key('server')}",
        f"--client-ca-file={pki.authority}",
        "--authentication-skip-lookup=true",
        f"--root-ca-file={pki.authority}",
        f"--service-account-private-key-file={pki.service_account_key}",
        # Each controller with the rights of its own that Kubernetes gives it.
        "--use-service-account-credentials=true",
        f"--controllers={','.join(CONTROLLERS)}",
        "--leader-elect=false",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--profiling=false",
    ]


def scheduler_command(programs: Programs, files: Files, ports: Ports) -> list[str]:
    """Return kube-scheduler's."""
    pki = files.pki
    return [
        str(programs.kube_scheduler),
        f"--config={files.scheduler_configuration}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={ports.scheduler}",
        f"--tls-cert-file={pki.certificate('server')}",
        f"--tls-private-key-file={pki.key('server')}",
        f"--client-ca-file={pki.authority}",
        "--authentication-skip-lookup=true",
    ]


def scheduler_configuration(files: Files) -> Mapping[str, object]:
    """Return the scheduler's configuration: the default profile, one replica.

    A pod that found no place is tried again within a second of the change that may help it, where the default waits up to
    ten. Source: https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/.
    """
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(files.kubeconfig("kube-scheduler")), "qps": 200, "burst": 400},
        "leaderElection": {"leaderElect": False},
        "enableProfiling": False,
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
    }


def kwok_command(programs: Programs, files: Files, ports: Ports) -> list[str]:
    """Return kwok's: it keeps every node, and serves as the kubelet of each."""
    pki = files.pki
    return [
        str(programs.kwok),
        f"--kubeconfig={files.kubeconfig('kwok')}",
        f"--config={files.kwok_configuration}",
        "--manage-all-nodes=true",
        f"--node-lease-duration-seconds={NODE_LEASE_SECONDS}",
        f"--node-port={ports.kwok}",
        f"--server-address={LOOPBACK}:{ports.kwok}",
        f"--tls-cert-file={pki.certificate('server')}",
        f"--tls-private-key-file={pki.key('server')}",
        f"--cidr={POD_RANGE}",
        f"--enable-crds={','.join(KWOK_KINDS)}",
    ]
