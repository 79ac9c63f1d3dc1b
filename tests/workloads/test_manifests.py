"""RayCluster, RayJob and NetworkPolicies: golden manifests, the real CRDs, and the reports that each line answers."""

# YAML and JSON Schema carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from rehearsal.toolchain import kuberay_crds
from workloads import network_policy, ray_cluster, training_job
from workloads.ray_cluster import RayClusterSpec
from workloads.training_job import TrainingJobSpec, failure

GOLDEN = Path(__file__).parents[1] / "golden"
CLUSTER = RayClusterSpec(
    namespace="ray-train",
    image="public.ecr.aws/deep-learning-containers/ray:train-ml-cuda-v1.1",
    zone="us-east-2b",
    workers=2,
    head_cpu=4,
    head_memory_gib=16,
    worker_cpu=40,
    worker_memory_gib=160,
    worker_gpus=4,
    worker_efa=1,
    worker_ray_start_params={},
    worker_environment={},
    shared_volume_claim="",
    timeout_minutes=30,
)
JOB = TrainingJobSpec(
    namespace="ray-train",
    cluster="ray",
    image=CLUSTER.image,
    code_sha256="0" * 64,
    arguments=["--model=Qwen/Qwen2.5-1.5B", "--num-nodes=2"],
    storage_path="",
    cluster_fingerprint="fingerprint",
    run_id="",
    timeout_minutes=60,
    await_job="finished",
)


def job_manifest(spec: TrainingJobSpec = JOB) -> Mapping[str, Any]:
    return training_job.manifest(
        spec,
        command=training_job.entrypoint(spec, "s3://bucket", "s3://bucket"),
        environment=training_job.runtime_env(spec, "s3://bucket/code/0.zip"),
    )


MANIFESTS: Mapping[str, Any] = {
    "raycluster": ray_cluster.manifest(CLUSTER),
    "raycluster-tcp": ray_cluster.manifest(replace(CLUSTER, worker_efa=0)),
    "raycluster-fsx": ray_cluster.manifest(replace(CLUSTER, shared_volume_claim="fsx")),
    "rayjob": job_manifest(),
    "networkpolicies": network_policy.policies(cluster="ray", operator_namespace="kuberay-system"),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_golden(name: str) -> None:
    """`UPDATE_GOLDEN=1 pytest` writes the files anew; their diff is then read like code."""
    file = GOLDEN / f"{name}.yaml"
    text = yaml.safe_dump(MANIFESTS[name], sort_keys=False, width=120)
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text)
    assert yaml.safe_load(file.read_text()) == MANIFESTS[name]


@pytest.mark.parametrize("name", [name for name in MANIFESTS if name.startswith("ray")])
def test_real_crd_accepts(name: str) -> None:
    """Nothing unknown, nothing of a wrong type: an API server would prune or refuse it."""
    manifest = MANIFESTS[name]
    assert violations(manifest) == []


def test_the_check_against_the_crd_sees_unknown_and_wrong() -> None:
    broken = ray_cluster.manifest(CLUSTER)
    broken["spec"]["upgradeStrategie"] = {"type": "Recreate"}
    broken["spec"]["workerGroupSpecs"][0]["replicas"] = "two"
    assert len(violations(broken)) == 2


def violations(manifest: Mapping[str, Any]) -> list[str]:
    return [error.message for error in _validator(manifest["kind"]).iter_errors(dict(manifest))]


@cache
def _validator(kind: str) -> Draft202012Validator:
    plural = {"RayCluster": "rayclusters", "RayJob": "rayjobs"}[kind]
    crd = yaml.load((kuberay_crds() / f"ray.io_{plural}.yaml").read_text(), yaml.CSafeLoader)
    (schema,) = [version["schema"]["openAPIV3Schema"] for version in crd["spec"]["versions"] if version["name"] == "v1"]
    schema["properties"]["metadata"] = {"type": "object"}
    return Draft202012Validator(_strict(schema))


def _strict(schema: Any) -> Any:
    """Refuse what the schema does not name, and take Kubernetes' int-or-string, which JSON Schema lacks."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(schema, dict):
        return schema
    node: dict[str, Any] = {key: _strict(value) for key, value in schema.items()}  # pyright: ignore[reportUnknownVariableType]
    if node.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    open_ = node.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in node
    if node.get("type") == "object" and "properties" in node and not open_:
        node["additionalProperties"] = False
    return node


# --- RayCluster ---


def worker(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    return manifest["spec"]["workerGroupSpecs"][0]


@pytest.mark.parametrize("gpus", [1, 4, 8])
def test_requests_are_limits_are_num_gpus(gpus: int) -> None:
    manifest = ray_cluster.manifest(replace(CLUSTER, worker_gpus=gpus, worker_ray_start_params={"num-cpus": "8"}))
    (container,) = worker(manifest)["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == str(gpus)
    assert worker(manifest)["rayStartParams"] == {"num-cpus": "8", "num-gpus": str(gpus)}
    (head,) = manifest["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
    assert head["resources"]["requests"] == head["resources"]["limits"]


def test_a_changed_image_recreates_the_pods() -> None:
    """Without the strategy KubeRay updates the object and keeps the old pods."""
    assert ray_cluster.manifest(CLUSTER)["spec"]["upgradeStrategy"] == {"type": "Recreate"}


def test_ready_means_every_worker_now() -> None:
    """`state: ready` and the condition both outlive a lost worker; the count does not."""
    annotations = ray_cluster.manifest(replace(CLUSTER, workers=3))["metadata"]["annotations"]
    assert yaml.safe_load(annotations["pulumi.com/waitFor"]) == [
        "condition=RayClusterProvisioned",
        "condition=HeadPodReady",
        "jsonpath={.status.readyWorkerReplicas}=3",
    ]
    assert annotations["pulumi.com/timeoutSeconds"] == "1800"


def test_head_takes_no_work_and_no_gpu() -> None:
    head = ray_cluster.manifest(CLUSTER)["spec"]["headGroupSpec"]
    assert head["rayStartParams"]["num-cpus"] == "0"
    assert head["template"]["spec"]["nodeSelector"] == {"efa-ray-train/role": "system"}
    (container,) = head["template"]["spec"]["containers"]
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in container["env"]


def test_dashboard_is_inside_the_cluster_and_asks_for_a_token() -> None:
    spec = ray_cluster.manifest(CLUSTER)["spec"]
    assert (spec["headGroupSpec"]["serviceType"], spec["headGroupSpec"]["enableIngress"]) == ("ClusterIP", False)
    assert spec["authOptions"] == {"mode": "token"}


def test_nothing_asks_for_ray_serve() -> None:
    """A Serve annotation adds a probe of port 8000, which no training pod answers."""
    text = yaml.safe_dump(ray_cluster.manifest(CLUSTER))
    assert "serve" not in text.replace("server", "")
    assert "8000" not in text


@pytest.mark.parametrize("efa", [0, 1, 32])
def test_worker_environment_names_the_network(efa: int) -> None:
    manifest = ray_cluster.manifest(replace(CLUSTER, worker_efa=efa, worker_environment={"HF_HUB_OFFLINE": "1"}))
    (container,) = worker(manifest)["template"]["spec"]["containers"]
    environment = {item["name"]: item["value"] for item in container["env"]}
    assert "FI_EFA_USE_DEVICE_RDMA" not in environment, "aborts where the device has no RDMA read"
    assert environment["NCCL_SOCKET_IFNAME"] == "eth0", "else NCCL may take pod-id-link0"
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert (environment.get("FI_PROVIDER") == "efa") is (efa > 0)


# --- RayJob ---


def test_a_run_is_submitted_once_and_ends_once() -> None:
    spec = job_manifest()["spec"]
    assert (spec["submissionMode"], spec["backoffLimit"], spec["activeDeadlineSeconds"]) == ("HTTPMode", 0, 3720)
    assert "shutdownAfterJobFinishes" not in spec, (
        "false is the default, and the operator writes the object back without it"
    )


def test_a_long_run_is_awaited_until_it_runs() -> None:
    annotations = job_manifest(replace(JOB, await_job="running"))["metadata"]["annotations"]
    assert annotations["pulumi.com/waitFor"] == "jsonpath={.status.jobStatus}"


def test_arguments_are_quoted_for_the_shell() -> None:
    command = training_job.entrypoint(
        replace(JOB, arguments=["--prompt=a 'b'; rm -rf /"]), "s3://bucket/a b", "s3://bucket"
    )
    assert command.startswith("timeout --signal=TERM --kill-after=60 3600 python -m train ")
    assert command.endswith(
        "'--storage-path=s3://bucket/a b/checkpoints' --record-path=s3://bucket/runs '--prompt=a '\"'\"'b'\"'\"'; rm -rf /'"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"image": "other"},
        {"code_sha256": "1" * 64},
        {"arguments": ["--model=other"]},
        {"storage_path": "s3://other"},
        {"cluster_fingerprint": "other"},
        {"run_id": "again"},
        # A RayJob of the same name would find the old run in Ray, and take its end for its own.
        {"timeout_minutes": 5},
    ],
    ids=str,
)
def test_each_change_makes_a_new_run(change: Mapping[str, Any]) -> None:
    assert training_job.job_name(replace(JOB, **change)) != training_job.job_name(JOB)


def test_how_long_pulumi_waits_makes_no_new_run() -> None:
    assert training_job.job_name(replace(JOB, await_job="running")) == training_job.job_name(JOB)


@pytest.mark.parametrize(
    ("await_job", "status", "said"),
    [
        ("finished", {"jobStatus": "SUCCEEDED"}, None),
        ("finished", {"jobStatus": "STOPPED"}, "ended as STOPPED"),
        ("finished", {"jobStatus": "RUNNING"}, "ended as RUNNING"),
        ("finished", {"jobStatus": "FAILED", "message": "rank 3: out of memory"}, "rank 3: out of memory"),
        (
            "finished",
            {"jobDeploymentStatus": "Failed", "reason": "DeadlineExceeded"},
            "ended as nothing (deployment Failed)",
        ),
        ("finished", None, "ended as nothing"),
        ("running", {"jobStatus": "RUNNING"}, None),
        ("running", {"jobStatus": "PENDING"}, None),
        ("running", {"jobStatus": "FAILED", "message": "no such file"}, "no such file"),
    ],
)
def test_only_succeeded_is_success(await_job: Any, status: Mapping[str, Any] | None, said: str | None) -> None:
    found = failure(await_job, status)
    assert (found is None) is (said is None)
    assert said is None or (found is not None and said in found)


# --- NetworkPolicies ---


def test_everything_is_denied_first() -> None:
    policies = network_policy.policies(cluster="ray", operator_namespace="kuberay-system")
    assert policies["default-deny"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_only_the_operator_reaches_the_dashboard_from_outside() -> None:
    policies = network_policy.policies(cluster="ray", operator_namespace="kuberay-system")
    admitting = {name: policy["ingress"] for name, policy in policies.items() if "ingress" in policy}
    assert set(admitting) == {"ray-peers", "operator-to-dashboard"}
    (rule,) = admitting["operator-to-dashboard"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 8265}]
    (peer,) = rule["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "kuberay-system"}
    assert peer["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "kuberay-operator"}


def test_metadata_service_is_out_of_reach() -> None:
    policies = network_policy.policies(cluster="ray", operator_namespace="kuberay-system")
    open_ports = {
        (block["ipBlock"]["cidr"], port["port"])
        for policy in policies.values()
        for rule in policy.get("egress", ())
        for block in rule["to"]
        if "ipBlock" in block
        for port in rule["ports"]
    }
    assert open_ports == {("169.254.170.23/32", 80), ("0.0.0.0/0", 443)}
