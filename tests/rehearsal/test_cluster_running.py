"""A local cluster that really runs: what it does with nodes and pods, and that nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Namespace

from rehearsal.cluster import container_log, find_programs, start_cluster, streams
from rehearsal.cluster.layout import Ports
from rehearsal.cluster.stages import PROCESS_ANNOTATION, RAY_LABEL, STAND_IN_ANNOTATION
from rehearsal.errors import RehearsalError
from rehearsal.processes import Supervisor
from rehearsal.toolchain import kuberay_crds
from tests.rehearsal.cluster_support import CORE, Shared, ready, shared_cluster, wait_for

REPOSITORY = Path(__file__).resolve().parents[2]
KWOK_PATH = f"/apis/{streams.API_VERSION}"

pytestmark = pytest.mark.xdist_group("cluster")

# A supervising process of its own: prints where its cluster is and what runs, then waits for its end.
SUPERVISING = """
import json, sys, time
from pathlib import Path
from rehearsal.cluster import find_programs, start_cluster
from rehearsal.processes import Supervisor
from rehearsal.toolchain import kuberay_crds
place = Path(sys.argv[1])
supervisor = Supervisor(place / "processes")
cluster = start_cluster(place / "cluster", find_programs(), supervisor)
ports = [getattr(cluster.ports, name) for name in cluster.ports.__dataclass_fields__]
print(json.dumps([str(cluster.kubeconfig), ports, [one.pid for one in supervisor.running.values()]]), flush=True)
time.sleep(600)
"""


@pytest.fixture
def shared() -> Shared:
    return shared_cluster()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_it_is_ready_soon(shared: Shared) -> None:
    # A machine that does other things besides gives a cluster less of itself.
    share = max(1.0, shared.load / (os.cpu_count() or 1))
    print(f"\ncluster ready after {shared.seconds_to_ready:.1f} s (load {shared.load:.1f})")
    assert shared.seconds_to_ready < 15 * share
    assert shared.kubectl("version", "-o", "json").returncode == 0
    assert set(shared.cluster.supervisor.running) == {
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kwok",
    }


def test_a_node_keeps_its_numbers_and_gets_signs_of_life(shared: Shared) -> None:
    name = shared.node(gpus=4)
    node = shared.get(f"{CORE}/nodes/{name}")
    assert node["status"]["capacity"] == {"cpu": "48", "memory": "192Gi", "pods": "110", "nvidia.com/gpu": "4"}
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    lease = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
    wait_for(lambda: shared.get(lease) is not None, "a lease")
    # What a device plugin's absence takes away stays away, whatever else happens to the node.
    patch = '{"status": {"allocatable": {"nvidia.com/gpu": "0"}}}'
    shared.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", patch)
    shared.kubectl("label", "node", name, "seen=true")
    time.sleep(1)
    node = shared.get(f"{CORE}/nodes/{name}")
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "0"
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "4"


def test_a_daemon_set_lands_on_the_nodes_that_it_selects(shared: Shared) -> None:
    namespace = shared.namespace()
    wanted, other = shared.node(gpus=4, labels={"pool": namespace}), shared.node()
    template = {
        "metadata": {"labels": {"app": "plugin"}},
        "spec": {
            "nodeSelector": {"pool": namespace},
            "initContainers": [{"name": "before", "image": "example"}],
            "containers": [
                {"name": "main", "image": "example", "resources": {"limits": {"nvidia.com/gpu": "4"}}},
            ],
        },
    }
    spec = {"selector": {"matchLabels": {"app": "plugin"}}, "template": template}
    started = time.monotonic()
    shared.create(
        {"kind": "DaemonSet", "metadata": {"namespace": namespace, "name": "plugin"}, "spec": spec},
        "/apis/apps/v1",
        "daemonsets",
    )

    def pods() -> list[Any]:
        return shared.get(f"{CORE}/namespaces/{namespace}/pods")["items"]

    wait_for(lambda: [pod["status"].get("phase") for pod in pods()] == ["Running"], "one pod that runs")
    print(f"\ndaemon set's pod runs after {time.monotonic() - started:.1f} s")
    (pod,) = pods()
    assert pod["spec"]["nodeName"] == wanted != other
    assert pod["status"]["podIP"]
    assert {(c["type"], c["status"]) for c in pod["status"]["conditions"]} >= {
        ("Ready", "True"),
        ("Initialized", "True"),
    }
    assert [c["ready"] for c in pod["status"]["containerStatuses"]] == [True]
    assert pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


def test_a_pod_that_asks_for_too_many_gpus_stays_pending_with_the_reason(shared: Shared) -> None:
    namespace = shared.namespace()
    shared.node(gpus=4, labels={"pool": namespace})
    resources = {"limits": {"nvidia.com/gpu": "5"}}
    shared.pod(
        namespace,
        "greedy",
        spec={
            "nodeSelector": {"pool": namespace},
            "containers": [{"name": "main", "image": "example", "resources": resources}],
        },
    )

    def reasons() -> str:
        return " ".join(event["message"] for event in shared.get(f"{CORE}/namespaces/{namespace}/events")["items"])

    wait_for(lambda: "Insufficient nvidia.com/gpu" in reasons(), "the scheduler's reason")
    assert shared.status(namespace, "greedy")["phase"] == "Pending"


def test_the_client_is_an_administrators(shared: Shared) -> None:
    with shared.cluster.client() as client:
        assert client.get(Namespace, "kube-system").metadata
        client.create(ConfigMap(metadata=ObjectMeta(name="made", namespace="default")))


def test_jobs_complete(shared: Shared) -> None:
    namespace = shared.namespace()
    shared.node()
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example"}]}}
    shared.create(
        {"kind": "Job", "metadata": {"namespace": namespace, "name": "job"}, "spec": {"template": template}},
        "/apis/batch/v1",
        "jobs",
    )
    done = shared.kubectl("-n", namespace, "wait", "--for=condition=Complete", "--timeout=30s", "job/job")
    assert done.returncode == 0


def test_a_definition_of_before_1_6_refuses_the_ray_cluster_in_words(shared: Shared, tmp_path: Path) -> None:
    """Pruned in silence, the strategy would be lost, and changed pods keep their image: https://github.com/ray-project/kuberay/issues/4140."""
    definition: Any = yaml.load((kuberay_crds() / "ray.io_rayclusters.yaml").read_text(), yaml.CSafeLoader)
    for version in definition["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"].pop("upgradeStrategy", None)
    file = tmp_path / "definition.json"
    file.write_text(json.dumps(definition))
    # As the Kubernetes provider does it, which is told who the manager is.
    apply = ("apply", "--server-side", "--field-manager=test", "-f")
    shared.kubectl(*apply, str(file))
    try:
        shared.kubectl("create", "namespace", "ray-train")
        manifest = str(REPOSITORY / "tests" / "golden" / "raycluster.yaml")
        said: list[str] = []

        def refused() -> bool:
            answer = shared.kubectl(*apply, manifest, check=False)
            assert answer.returncode == 1
            said.append(answer.stderr)
            # Discovery lags behind the definition.
            return "no matches for kind" not in answer.stderr

        wait_for(refused, "the kind is served")
        assert ".spec.upgradeStrategy: field not declared in schema" in said[-1]
    finally:
        shared.kubectl("delete", "-f", str(file))


@pytest.mark.parametrize("labels", [{RAY_LABEL: "worker"}, {"app.kubernetes.io/name": "kuberay-operator"}])
def test_pods_that_have_a_process_wait_for_it(shared: Shared, labels: dict[str, str]) -> None:
    namespace, node = shared.namespace(), shared.node()
    shared.pod(namespace, "ours", node=node, labels=labels)
    shared.pod(namespace, "plain", node=node, labels={"app.kubernetes.io/name": "else"})
    wait_for(lambda: shared.runs(namespace, "plain"), "a plain pod runs")
    time.sleep(0.5)
    assert shared.status(namespace, "ours")["phase"] == "Pending"
    assert "podIP" not in shared.status(namespace, "ours")
    shared.kubectl("-n", namespace, "annotate", "pod", "ours", f"{STAND_IN_ANNOTATION}=true")
    wait_for(lambda: shared.runs(namespace, "ours"), "the annotated pod runs")


def test_deleted_pods_go_except_those_whose_process_has_to_end_first(shared: Shared) -> None:
    namespace, node = shared.namespace(), shared.node()
    shared.pod(namespace, "plain", node=node)
    shared.pod(namespace, "ray", node=node, labels={RAY_LABEL: "head"})
    shared.pod(namespace, "ours", node=node, labels={RAY_LABEL: "head"}, annotations={PROCESS_ANNOTATION: "4711"})
    for name in ("plain", "ray", "ours"):
        shared.delete(f"{CORE}/namespaces/{namespace}/pods/{name}")
    wait_for(lambda: shared.status(namespace, "plain") is None, "the plain pod is gone")
    wait_for(lambda: shared.status(namespace, "ray") is None, "the Ray pod without a process is gone")
    time.sleep(0.5)
    assert shared.status(namespace, "ours") is not None
    shared.delete(f"{CORE}/namespaces/{namespace}/pods/ours?gracePeriodSeconds=0")
    assert shared.status(namespace, "ours") is None


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.sendall(b"echo " + self.request.recv(100))


@contextmanager
def echo_server() -> Generator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def running_pod(shared: Shared, tmp_path: Path, port: int) -> str:
    """Make a pod named `head` of a service `head-svc`, all of whose streams lead to this machine; return its namespace."""
    namespace, node = shared.namespace(), shared.node()
    made = shared.pod(
        namespace,
        "head",
        node=node,
        labels={"app": "head"},
        spec={"containers": [{"name": "ray", "image": "example", "ports": [{"containerPort": 8265}]}]},
    )
    shared.create(
        {
            "kind": "Service",
            "metadata": {"namespace": namespace, "name": "head-svc"},
            "spec": {"selector": {"app": "head"}, "ports": [{"port": 80, "targetPort": 8265}]},
        },
        "/api/v1",
        "services",
    )
    pod = streams.Pod(namespace=namespace, name="head", uid=made["metadata"]["uid"])
    shell = streams.Shell(environment={"X": "from the pod"}, work_dir=tmp_path)
    shared.create(streams.logs(pod, {"ray": tmp_path / "ray.log"}), KWOK_PATH, "logs")
    shared.create(streams.exec_(pod, {"ray": shell}), KWOK_PATH, "execs")
    shared.create(streams.port_forward(pod, {8265: port}), KWOK_PATH, "portforwards")
    wait_for(lambda: shared.runs(namespace, "head"), "head runs")
    return namespace


def test_kubectl_reaches_the_processes_of_a_pod(shared: Shared, tmp_path: Path) -> None:
    with echo_server() as port, (tmp_path / "said").open("wb") as said:
        said.write(b"first line\nsecond line\n")
        said.close()
        with (tmp_path / "said").open("rb") as output:
            container_log.keep_log(output, tmp_path / "ray.log")
        namespace = running_pod(shared, tmp_path, port)
        for pod in ("head", "service/head-svc"):
            logs = shared.kubectl("-n", namespace, "logs", pod)
            assert logs.stdout == "first line\nsecond line\n"
            inside = shared.kubectl("-n", namespace, "exec", pod, "--", "sh", "-c", "echo $X; pwd; echo why >&2")
            assert inside.stdout == f"from the pod\n{tmp_path}\n"
            assert inside.stderr.splitlines()[-1] == "why"
            assert forwarded(shared, namespace, pod, "8265" if pod == "head" else "80") == b"echo hello"
        tail = shared.kubectl("-n", namespace, "logs", "head", "--tail=1", "--timestamps")
        assert tail.stdout.endswith("Z second line\n")
        failed = shared.kubectl("-n", namespace, "exec", "head", "--", "sh", "-c", "exit 3", check=False)
        assert failed.returncode != 0
        shared.delete(f"{CORE}/namespaces/{namespace}/pods/head")
        wait_for(
            lambda: not shared.kubectl("-n", namespace, "get", "logs,execs,portforwards", "-o", "name").stdout,
            "the streams of a pod that is gone are gone",
        )


def forwarded(shared: Shared, namespace: str, target: str, port: str) -> bytes:
    """Say hello through `kubectl port-forward` and return the answer."""
    command = [str(shared.cluster.kubectl), f"--kubeconfig={shared.cluster.kubeconfig}", "-n", namespace]
    with subprocess.Popen([*command, "port-forward", target, f":{port}"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            # Forwarding from 127.0.0.1:PORT -> 8265
            local = int(process.stdout.readline().split(":")[1].split()[0])
            with socket.create_connection(("127.0.0.1", local), timeout=10) as connection:
                connection.sendall(b"hello")
                return connection.recv(100)
        finally:
            process.kill()


def test_a_followed_log_goes_on(shared: Shared, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as source, os.fdopen(writer, "wb", buffering=0) as said:
        keeping = threading.Thread(target=container_log.keep_log, args=(source, tmp_path / "ray.log"))
        keeping.start()
        said.write(b"before\n")
        namespace = running_pod(shared, tmp_path, 1)
        command = [str(shared.cluster.kubectl), f"--kubeconfig={shared.cluster.kubeconfig}", "-n", namespace]
        with subprocess.Popen([*command, "logs", "-f", "head"], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "before\n"
            said.write(b"after\n")
            assert process.stdout.readline() == "after\n"
            process.kill()
        said.close()
        keeping.join()


def test_other_users_have_the_rights_that_they_are_given(shared: Shared) -> None:
    account = "system:serviceaccount:default:default"
    path = shared.cluster.kubeconfig_for("nobody", account, ["system:serviceaccounts"])
    answer = subprocess.run(
        [shared.cluster.kubectl, f"--kubeconfig={path}", "get", "pods"], capture_output=True, text=True, check=False
    )
    assert f'User "{account}" cannot list resource "pods"' in answer.stderr


def test_the_api_server_comes_back_to_a_cluster_that_went_on(shared: Shared) -> None:
    namespace, node = shared.namespace(), shared.node()
    shared.cluster.stop_api_server()
    assert not listens(shared.cluster.ports.api_server)
    time.sleep(1)
    others = {name: one.alive for name, one in shared.cluster.supervisor.running.items()}
    assert others == {"etcd": True, "kube-controller-manager": True, "kube-scheduler": True, "kwok": True}
    started = time.monotonic()
    shared.cluster.start_api_server()
    print(f"\nAPI server ready again after {time.monotonic() - started:.1f} s")
    shared.pod(namespace, "after")
    wait_for(lambda: shared.runs(namespace, "after"), "a new pod is scheduled and runs")
    assert ready(shared.get(f"{CORE}/nodes/{node}"))


def test_two_clusters_do_not_meet_and_a_killed_one_leaves_nothing(shared: Shared, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SUPERVISING, str(tmp_path)], cwd=REPOSITORY, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        kubeconfig, ports, pids = json.loads(process.stdout.readline())
        assert len(pids) == 5
        assert all(alive(pid) for pid in pids)
        # Each refuses the other's server, and where one does not look, the server refuses the other's user.
        crossed = shared.kubectl("--server", f"https://127.0.0.1:{ports[0]}", "get", "nodes", check=False)
        assert "certificate signed by unknown authority" in crossed.stderr
        strayed = subprocess.run(
            [
                str(shared.cluster.kubectl),
                f"--kubeconfig={kubeconfig}",
                f"--server={shared.cluster.endpoint}",
                "--insecure-skip-tls-verify=true",
                "get",
                "nodes",
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert strayed.returncode != 0
        assert "logged in" in strayed.stderr or "Unauthorized" in strayed.stderr
        process.send_signal(signal.SIGKILL)
    wait_for(lambda: not any(alive(pid) for pid in pids), "the end of everything that was started")
    wait_for(lambda: not any(listens(port) for port in ports), "all its ports free")


def test_a_stopped_cluster_leaves_nothing(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path / "processes")
    try:
        cluster = start_cluster(tmp_path / "cluster", find_programs(), supervisor)
        pids = [one.pid for one in supervisor.running.values()]
        cluster.stop()
        assert not supervisor.running
        assert not [pid for pid in pids if alive(pid)]
        for field in Ports.__dataclass_fields__:
            with socket.socket() as server:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.bind(("127.0.0.1", getattr(cluster.ports, field)))
    finally:
        supervisor.stop_all(grace=0)


def test_a_part_that_does_not_start_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path / "processes")
    broken = tmp_path / "etcd"
    broken.write_text("#!/bin/sh\necho cannot be\nexit 4\n")
    broken.chmod(0o755)
    with pytest.raises(RehearsalError, match="etcd: ended with status 4 before it was ready; its log says: cannot be"):
        start_cluster(tmp_path / "cluster", replace(find_programs(), etcd=broken), supervisor)
    assert not supervisor.running
    supervisor.stop_all(grace=0)
