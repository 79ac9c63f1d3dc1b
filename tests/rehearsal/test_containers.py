"""What a kubelet would do for the pods that run for real: command, environment, probe, status, log."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rehearsal.containers.environment import UnresolvedError, container_environment
from rehearsal.containers.log_copy import LogCopy
from rehearsal.containers.pods import Role, views
from rehearsal.containers.probe import is_ready
from rehearsal.containers.proxy import ServiceProxy
from rehearsal.containers.ray_command import RayPorts, generated_command, head_command, worker_command
from rehearsal.containers.status import ProcessState, pod_status
from rehearsal.errors import RehearsalError
from tests.rehearsal.pod_support import HEAD_COMMAND, WORKER_COMMAND, pod

HEAD = RayPorts(agent=1, agent_grpc=2, runtime_env=3, metrics=4, control_store=5, dashboard=6)
WORKER = RayPorts(agent=11, agent_grpc=12, runtime_env=13, metrics=14)


def no_secret(_namespace: str, _name: str, _key: str) -> bytes | None:
    return None


def test_roles() -> None:
    assert pod(labels={"ray.io/node-type": "head"}).role is Role.RAY_HEAD
    assert pod(labels={"ray.io/node-type": "worker"}).role is Role.RAY_WORKER
    assert pod(labels={"app.kubernetes.io/name": "kuberay-operator"}).role is Role.OPERATOR
    assert pod(labels={"app.kubernetes.io/name": "nvidia-device-plugin"}).role is None


def test_pods_come_oldest_first() -> None:
    assert views([]) == []
    young, old = pod("a", created=20.0), pod("b", created=10.0)
    assert sorted([young, old], key=lambda one: (one.created, one.name)) == [old, young]


def test_the_head_listens_on_loopback_at_its_own_ports(tmp_path: Path) -> None:
    words = head_command(HEAD_COMMAND, HEAD, tmp_path)
    assert words[3:5] == ["start", "--head"]
    assert {
        "--port=5",
        "--dashboard-host=127.0.0.1",
        "--dashboard-port=6",
        "--dashboard-agent-listen-port=1",
        "--metrics-export-port=4",
        "--node-ip-address=127.0.0.1",
        f"--temp-dir={tmp_path}",
        "--block",
    } <= set(words)
    # What KubeRay asked for stays.
    assert {"--num-cpus=0", "--num-gpus=0", "--memory=17179869184"} <= set(words)
    assert not [word for word in words if "0.0.0.0" in word or "52365" in word or "8080" in word]


def test_a_worker_joins_its_head_and_keeps_its_resources(tmp_path: Path) -> None:
    words = worker_command(f"""{WORKER_COMMAND} --resources='{{"slot":1}}'""", WORKER, tmp_path, HEAD)
    assert {
        f"--temp-dir={tmp_path}",
        "--address=127.0.0.1:5",
        "--num-gpus=4",
        "--num-cpus=40",
        '--resources={"slot":1}',
    } <= set(words)
    assert "--head" not in words
    assert not [word for word in words if "svc.cluster.local" in word]


@pytest.mark.parametrize("command", ["sleep 5", WORKER_COMMAND])
def test_a_head_without_a_head_command_is_refused(command: str, tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match=r"KUBERAY_GEN_RAY_START_CMD: found .* expected"):
        head_command(command, HEAD, tmp_path)


def test_a_worker_with_a_heads_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match="for a worker"):
        worker_command(HEAD_COMMAND, WORKER, tmp_path, HEAD)


def test_a_pod_without_kuberays_command_is_refused() -> None:
    with pytest.raises(RehearsalError, match="pod ray-train/ray-head-abcde: has no KUBERAY_GEN_RAY_START_CMD"):
        generated_command({}, pod())


def test_the_environment_is_the_containers_own(tmp_path: Path) -> None:
    one = pod(
        labels={"ray.io/cluster": "ray"},
        env=[
            {"name": "PLAIN", "value": "1"},
            {"name": "EMPTY"},
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['ray.io/cluster']"}}},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "ray", "key": "auth_token"}}},
            {"name": "MAYBE", "valueFrom": {"secretKeyRef": {"name": "no", "key": "no", "optional": True}}},
            {"name": "HF_HOME", "value": "/scratch/huggingface"},
            {"name": "OTHER", "value": "/scratchy/huggingface"},
        ],
        mounts=[{"name": "scratch", "mountPath": "/scratch"}],
    )

    def secret(namespace: str, name: str, key: str) -> bytes | None:
        return b"t0ken" if (namespace, name, key) == ("ray-train", "ray", "auth_token") else None

    assert container_environment(one, secret, tmp_path) == {
        "PLAIN": "1",
        "EMPTY": "",
        "NAME": "ray-head-abcde",
        "LABEL": "ray",
        "TOKEN": "t0ken",
        "HF_HOME": str(tmp_path / "scratch" / "huggingface"),
        "OTHER": "/scratchy/huggingface",
    }
    assert (tmp_path / "scratch").is_dir()


def test_a_secret_that_is_not_there_yet_holds_the_container_up(tmp_path: Path) -> None:
    one = pod(env=[{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "ray", "key": "auth_token"}}}])
    with pytest.raises(UnresolvedError, match="TOKEN wants key auth_token of Secret ray, which is not there"):
        container_environment(one, no_secret, tmp_path)


@pytest.mark.parametrize(
    "source",
    [{"fieldRef": {"fieldPath": "status.qosClass"}}, {"configMapKeyRef": {"name": "a", "key": "b"}}],
    ids=["field", "config map"],
)
def test_a_source_that_is_not_known_is_said(source: dict[str, dict[str, str]], tmp_path: Path) -> None:
    with pytest.raises(UnresolvedError, match="the rehearsal"):
        container_environment(pod(env=[{"name": "X", "valueFrom": source}]), no_secret, tmp_path)


@contextmanager
def answering(status: int, seen: list[tuple[str, str, bytes, str | None]]) -> Generator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            seen.append((self.command, self.path, body, self.headers.get("Authorization")))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"answer")

        do_POST = do_GET  # noqa: N815 -- the name that the base class calls

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(("status", "ready"), [(200, True), (204, True), (302, True), (404, False), (503, False)])
def test_the_probe_is_asked_at_the_local_port(status: int, ready: bool) -> None:
    seen: list[tuple[str, str, bytes, str | None]] = []
    with answering(status, seen) as port:
        one = pod(probe={"path": "/api/healthz", "port": 52365})
        assert is_ready(one.main, {52365: port}) is ready
        assert is_ready(pod(probe={"path": "/metrics", "port": "http"}).main, {8080: port}) is ready
    assert [path for _, path, _, _ in seen] == ["/api/healthz", "/metrics"]
    # Nothing listens there any more.
    assert not is_ready(one.main, {52365: port})


def test_a_container_without_a_probe_is_ready_at_once() -> None:
    assert is_ready(pod().main, {})


def test_the_proxy_leads_the_head_services_name_to_the_local_head() -> None:
    import http.client

    seen: list[tuple[str, str, bytes, str | None]] = []
    host = "ray-head-svc.ray-train.svc.cluster.local"
    with answering(201, seen) as port:
        proxy = ServiceProxy(lambda name, number: port if (name, number) == (host, 8265) else None)
        address = proxy.address.removeprefix("http://")
        connection = http.client.HTTPConnection(address)
        headers = {"Authorization": "Bearer t0ken"}
        connection.request("POST", f"http://{host}:8265/api/jobs/?a=b", body=b"{}", headers=headers)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (201, b"answer")
        # Anything else is nobody's.
        connection.request("GET", "http://example.com/")
        refused = connection.getresponse()
        assert (refused.status, b"no Ray head serves example.com:80" in refused.read()) == (502, True)
        connection.close()
        proxy.stop()
    assert seen == [("POST", "/api/jobs/?a=b", b"{}", "Bearer t0ken")]


def test_a_process_that_waits_says_for_what() -> None:
    status = pod_status(pod(init=True), ProcessState(waiting="waits for the head"))
    assert status["phase"] == "Pending"
    assert status["initContainerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert status["containerStatuses"][0]["state"]["waiting"]["message"] == "waits for the head"


@pytest.mark.parametrize("ready", [True, False])
def test_a_process_that_runs(ready: bool) -> None:
    started = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    status = pod_status(pod(init=True), ProcessState(started=started, running=True, ready=ready))
    conditions = {entry["type"]: entry["status"] for entry in status["conditions"]}
    assert status["phase"] == "Running"
    assert conditions["Ready"] == conditions["ContainersReady"] == str(ready)
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    container = status["containerStatuses"][0]
    assert container["ready"] is ready
    assert container["state"] == {"running": {"startedAt": "2026-01-02T03:04:05Z"}}


@pytest.mark.parametrize(("exit_status", "code"), [(-9, 137), (3, 3), (0, 0)])
def test_a_process_that_ended_is_counted_and_told(exit_status: int, code: int) -> None:
    status = pod_status(pod(), ProcessState(restarts=2, exit_status=exit_status))
    container = status["containerStatuses"][0]
    assert status["phase"] == "Running"
    assert (container["ready"], container["restartCount"]) == (False, 2)
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert container["lastState"]["terminated"]["exitCode"] == code


def test_whole_lines_of_a_log_are_copied_once(tmp_path: Path) -> None:
    source, target = tmp_path / "process.log", tmp_path / "container.log"
    source.write_bytes(b"one\ntwo\nthr")
    copy = LogCopy(source, target)
    copy.advance()
    copy.advance()
    with source.open("ab") as log:
        log.write(b"ee\n\xff\n")
    copy.advance()
    entries = [line.split(b" ", 3) for line in target.read_bytes().splitlines()]
    assert [entry[3] for entry in entries] == [b"one", b"two", b"three", b"\xff"]
    assert {(entry[1], entry[2]) for entry in entries} == {(b"stdout", b"F")}
