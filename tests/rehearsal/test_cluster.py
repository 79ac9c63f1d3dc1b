"""What a local cluster is made of: programs, keys, command lines, stages, streams. Nothing is started here."""

from __future__ import annotations

import base64
import datetime
import io
import ipaddress
import json
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store

from rehearsal.cluster import commands, find_programs, stages, streams
from rehearsal.cluster.bootstrap import kwok_definition, kwok_role_binding
from rehearsal.cluster.certificates import Authority, write_pki
from rehearsal.cluster.container_log import keep_log, log_entry
from rehearsal.cluster.kubeconfigs import kubeconfig, write_kubeconfig
from rehearsal.cluster.layout import Files, Ports
from rehearsal.cluster.programs import Programs
from rehearsal.errors import RehearsalError
from rehearsal.toolchain.tools import KUBERNETES

PROGRAMS = Programs(
    etcd=Path("/bin/etcd"),
    kube_apiserver=Path("/bin/kube-apiserver"),
    kube_controller_manager=Path("/bin/kube-controller-manager"),
    kube_scheduler=Path("/bin/kube-scheduler"),
    kubectl=Path("/bin/kubectl"),
    kwok=Path("/bin/kwok"),
)
FILES = Files(Path("/run/cluster"))
PORTS = Ports(api_server=3, controller_manager=4, scheduler=5, kwok=6)
COMMANDS = {
    "etcd": commands.etcd_command(PROGRAMS, FILES),
    "kube-apiserver": commands.api_server_command(PROGRAMS, FILES, PORTS),
    "kube-controller-manager": commands.controller_manager_command(PROGRAMS, FILES, PORTS),
    "kube-scheduler": commands.scheduler_command(PROGRAMS, FILES, PORTS),
    "kwok": commands.kwok_command(PROGRAMS, FILES, PORTS),
}
MINOR = ".".join(KUBERNETES.version.split(".")[:2])


def program(directory: Path, name: str, version: str) -> None:
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)


def install(directory: Path, **other: str) -> None:
    versions = dict.fromkeys(("kube-apiserver", "kube-controller-manager", "kube-scheduler"), f"Kubernetes v{MINOR}.9")
    versions |= {"kubectl": f"Client Version: v{MINOR}.0", "kwok": "kwok version v0.8.7 go1.26", "etcd": "etcd 3.5"}
    for name, version in {**versions, **{name.replace("_", "-"): version for name, version in other.items()}}.items():
        program(directory, name, version)


@pytest.fixture
def no_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a shell, an empty cache and no Go; the returned directory is on its PATH."""
    (tmp_path / "system").mkdir()
    (tmp_path / "system/sh").symlink_to("/bin/sh")
    monkeypatch.setenv("EFA_RAY_TRAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{tmp_path}/system")
    return tmp_path / "bin"


def test_official_programs_are_used_where_all_are_installed(no_go: Path) -> None:
    install(no_go)
    found = find_programs()
    assert found.etcd == no_go / "etcd"
    assert found.kube_apiserver == no_go / "kube-apiserver"
    assert found.kubectl == no_go / "kubectl"
    assert found.kwok == no_go / "kwok"


@pytest.mark.parametrize(
    "other", [{"kube_scheduler": "Kubernetes v1.35.2"}, {"kubectl": "Client Version: v1.33.0"}, {"kube_apiserver": "?"}]
)
def test_programs_of_another_minor_version_are_not_used(no_go: Path, other: dict[str, str]) -> None:
    install(no_go, **other)
    with pytest.raises(RehearsalError, match=f"kubernetes {KUBERNETES.version}: .*no `go` on PATH"):
        find_programs()


def test_a_missing_etcd_makes_all_of_them_builds(no_go: Path) -> None:
    install(no_go)
    (no_go / "etcd").unlink()
    with pytest.raises(RehearsalError, match=f"kubernetes {KUBERNETES.version}: "):
        find_programs()


def test_a_kwok_of_another_minor_version_is_not_used(no_go: Path) -> None:
    install(no_go, kwok="kwok version v0.7.0")
    with pytest.raises(RehearsalError, match=r"kwok 0\.8\.0: no `kwok` and no `go` on PATH"):
        find_programs()


def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    pki = write_pki(tmp_path / "pki", service_address="172.20.0.1")
    secrets = [pki.service_account_key, *(pki.key(name) for name in ("ca", "server", "kubelet-client", "admin"))]
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}
    assert stat.S_IMODE(pki.directory.stat().st_mode) == 0o700


def test_the_server_certificate_is_for_loopback_and_the_names_of_the_api_server(tmp_path: Path) -> None:
    pki = write_pki(tmp_path / "pki", service_address="172.20.0.1")
    store = Store([x509.load_pem_x509_certificate(pki.authority.read_bytes())])
    certificate = x509.load_pem_x509_certificate(pki.certificate("server").read_bytes())
    for subject in (
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("172.20.0.1")),
        x509.DNSName("localhost"),
        x509.DNSName("kubernetes.default.svc"),
    ):
        PolicyBuilder().store(store).build_server_verifier(subject).verify(certificate, [])
    with pytest.raises(x509.verification.VerificationError):
        PolicyBuilder().store(store).build_server_verifier(x509.DNSName("example.com")).verify(certificate, [])


def test_a_client_certificate_names_user_and_groups_and_its_cluster_alone(tmp_path: Path) -> None:
    pki = write_pki(tmp_path / "pki", service_address="172.20.0.1")
    pair = Authority.read(pki).client("someone", ["these", "those"])
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    subject = certificate.subject
    assert [name.value for name in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["someone"]
    assert [name.value for name in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["these", "those"]
    own = x509.load_pem_x509_certificate(pki.authority.read_bytes())
    certificate.verify_directly_issued_by(own)
    other = x509.load_pem_x509_certificate(Authority.create().pair.certificate)
    with pytest.raises(Exception, match=r"^$"):
        certificate.verify_directly_issued_by(other)


def test_a_kubeconfig_needs_no_other_file(tmp_path: Path) -> None:
    authority = Authority.create()
    pair = authority.client("someone")
    path = write_kubeconfig(
        tmp_path / "config", kubeconfig("https://127.0.0.1:9", authority.pair.certificate, "someone", pair)
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["config"]
    document = yaml.safe_load(path.read_text())
    context = document["contexts"][0]
    assert document["current-context"] == context["name"]
    assert context["context"] == {"cluster": document["clusters"][0]["name"], "user": document["users"][0]["name"]}
    assert document["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:9"
    assert base64.b64decode(document["users"][0]["user"]["client-key-data"]) == pair.key


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "etcd"])
def test_every_server_listens_on_loopback_alone_with_tls(name: str) -> None:
    command = COMMANDS[name]
    listening = [word for word in command if word.startswith(("--bind-address", "--server-address"))]
    assert [word.partition("=")[2].partition(":")[0] for word in listening] == ["127.0.0.1"]
    assert not [word for word in command if "http://" in word]
    assert [word for word in command if word.endswith("/server.key")]


def test_etcd_has_no_port() -> None:
    addresses = [word.partition("=")[2] for word in COMMANDS["etcd"] if "-urls=" in word]
    assert len(addresses) == 4
    assert all(address.startswith("unix://etcd") for address in addresses)


def test_no_port_serves_twice() -> None:
    words = [word for command in COMMANDS.values() for word in command]
    used = [word[-1] for word in words if word.startswith(("--secure-port=", "--server-address="))]
    assert sorted(used) == ["3", "4", "5", "6"]


@pytest.mark.parametrize("name", ["kube-apiserver", "kube-controller-manager", "kube-scheduler"])
def test_kubernetes_programs_ask_for_client_certificates(name: str) -> None:
    assert "--client-ca-file=/run/cluster/pki/ca.crt" in COMMANDS[name]


def test_the_api_server_lets_nobody_in_unnamed_and_gives_rights_by_roles() -> None:
    assert {"--anonymous-auth=false", "--authorization-mode=RBAC"} <= set(COMMANDS["kube-apiserver"])


def test_the_api_server_finds_kwok_at_the_address_that_nodes_get() -> None:
    template = stage_templates()["node-ready"]
    assert "--kubelet-preferred-address-types=ExternalDNS" in COMMANDS["kube-apiserver"]
    assert "- type: ExternalDNS\n  address: 127.0.0.1" in template
    assert "--node-port=6" in COMMANDS["kwok"]


def stage_templates() -> dict[str, str]:
    found: dict[str, str] = {}
    for stage in stages.stages():
        document: Any = stage
        for step in document["spec"]["steps"]:
            found[document["metadata"]["name"]] = step.get("patch", {}).get("template", "")
    return found


def test_the_node_stage_leaves_the_numbers_alone() -> None:
    template = stage_templates()["node-ready"]
    assert "allocatable" not in template
    assert "capacity" not in template


def test_stages_are_documents_that_kwok_reads_from_a_file() -> None:
    for stage in stages.stages():
        assert yaml.safe_load(json.dumps(stage)) == stage
        assert stage["apiVersion"] == "kwok.x-k8s.io/v1alpha1"


def test_what_leads_to_a_pods_processes_has_its_name_and_goes_with_it() -> None:
    pod = streams.Pod(namespace="train", name="head", uid="u-1")
    documents = [
        streams.logs(pod, {"ray": Path("/logs/ray.log")}),
        streams.exec_(pod, {"ray": streams.Shell(environment={"A": "b"}, work_dir=Path("/work"))}),
        streams.port_forward(pod, {8265: 40000}),
    ]
    for document in documents:
        metadata: Any = document["metadata"]
        assert (metadata["namespace"], metadata["name"]) == ("train", "head")
        assert metadata["ownerReferences"] == [{"apiVersion": "v1", "kind": "Pod", "name": "head", "uid": "u-1"}]
    assert [document["spec"] for document in documents] == [
        {"logs": [{"containers": ["ray"], "logsFile": "/logs/ray.log"}]},
        {"execs": [{"containers": ["ray"], "local": {"workDir": "/work", "envs": [{"name": "A", "value": "b"}]}}]},
        {"forwards": [{"ports": [8265], "target": {"address": "127.0.0.1", "port": 40000}}]},
    ]
    without: Any = streams.logs(streams.Pod(namespace="train", name="head"), {})
    assert without["metadata"] == {"namespace": "train", "name": "head"}


@pytest.mark.parametrize("kind", commands.KWOK_KINDS)
def test_every_kind_that_kwok_is_told_things_by_is_defined(kind: str) -> None:
    document: Any = kwok_definition(kind)
    assert document["metadata"]["name"] == f"{document['spec']['names']['plural']}.{document['spec']['group']}"
    assert document["spec"]["names"]["kind"] == kind


def test_kwok_has_its_own_role_and_is_no_administrator() -> None:
    binding: Any = kwok_role_binding()
    assert [subject["kind"] for subject in binding["subjects"]] == ["User"]
    assert binding["roleRef"]["name"] != "cluster-admin"


def test_a_log_entry_has_time_stream_tag_and_text() -> None:
    time = datetime.datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=datetime.UTC)
    assert log_entry(b"hello you\n", "stdout", time) == b"2026-01-02T03:04:05.000678000Z stdout F hello you\n"
    assert log_entry(b"half", "stderr", time) == b"2026-01-02T03:04:05.000678000Z stderr P half\n"
    assert log_entry(b"\n", "stdout", time).endswith(b"stdout F \n")


def test_output_is_kept_as_log_entries_and_long_lines_in_parts(tmp_path: Path) -> None:
    file = tmp_path / "log"
    keep_log(io.BytesIO(b"one\n" + b"x" * 20000 + b"\nend"), file)
    entries = [entry.split(b" ", 3)[2:] for entry in file.read_bytes().splitlines()]
    assert [(tag, len(text)) for tag, text in entries] == [(b"F", 3), (b"P", 16384), (b"F", 3616), (b"P", 3)]
