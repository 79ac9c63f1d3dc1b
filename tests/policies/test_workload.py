import pytest

from policies import tokens
from policies.values import UNKNOWN, Value, at, fields
from tests.policies.good_stack import Said, Stack, found, good_stack, said

WORKER = "spec.workerGroupSpecs.0"
AMOUNTS = f"{WORKER}.template.spec.containers.0.resources"
FIT = (
    "why: GPUs and EFA devices are exclusive: the rest waits for ever (Insufficient vpc.amazonaws.com/efa); "
    "fix: one worker per node: set gpuNodeCount, workerGpus and efaInterfaces to what the nodes have"
)


def ask(stack: Stack, name: str, amount: Value) -> None:
    stack.edit("ray", f"{AMOUNTS}.requests", {**requests(stack), name: amount})
    stack.edit("ray", f"{AMOUNTS}.limits", {**requests(stack), name: amount})


def requests(stack: Stack) -> dict[str, Value]:
    container = at(stack.resources["ray"].props, "spec", "workerGroupSpecs", 0, "template", "spec", "containers", 0)
    return fields(at(container, "resources", "requests"))


def unequal(name: str, request: str, limit: str) -> list[Said]:
    return found(
        "ray-requests",
        "ray",
        f"found {name} request {request} and limit {limit} in spec.workerGroupSpecs[0] of ray; "
        "allowed: a request equal to the limit; "
        "why: other pods may otherwise take what a rank counts on, and one slow rank slows all; "
        f"fix: set request and limit of {name} to one value (workerGpus for GPUs)",
    )


def test_a_request_below_the_limit_is_refused() -> None:
    stack = good_stack()
    stack.edit("ray", f"{AMOUNTS}.requests.cpu", "39")
    assert said(stack) == unequal("cpu", '"39"', '"40"')


def test_a_request_without_a_limit_is_refused() -> None:
    stack = good_stack()
    stack.edit("ray", f"{AMOUNTS}.limits.memory", None)
    assert said(stack) == unequal("memory", '"160Gi"', "nothing")


def test_neither_request_nor_limit_is_refused() -> None:
    stack = good_stack()
    stack.edit("ray", f"{AMOUNTS}.limits.memory", None)
    stack.edit("ray", f"{AMOUNTS}.requests.memory", None)
    assert said(stack) == unequal("memory", "nothing", "nothing")


@pytest.mark.parametrize(("request_", "limit"), [("40", 40), ("40000m", "40"), (40.0, "40")])
def test_one_amount_written_in_two_ways_is_equal(request_: Value, limit: Value) -> None:
    stack = good_stack()
    stack.edit("ray", f"{AMOUNTS}.requests.cpu", request_)
    stack.edit("ray", f"{AMOUNTS}.limits.cpu", limit)
    assert said(stack) == []


def test_a_limit_alone_is_a_request_too() -> None:
    stack = good_stack()
    stack.edit("ray", f"{AMOUNTS}.requests", None)
    assert said(stack) == []


def test_other_gpus_for_ray_than_for_the_pod_are_refused() -> None:
    stack = good_stack()
    stack.edit("ray", f"{WORKER}.rayStartParams", {"num-gpus": "8"})
    assert said(stack) == found(
        "ray-requests",
        "ray",
        'found rayStartParams num-gpus "8" with nvidia.com/gpu 4 in spec.workerGroupSpecs[0] of ray; '
        "allowed: num-gpus equal to the nvidia.com/gpu limit, or unset; "
        "why: Ray would place ranks on GPUs that the pod does not have, or leave GPUs idle; "
        "fix: set workerGpus, and remove num-gpus from workerRayStartParams",
    )


def test_num_gpus_may_be_left_to_kuberay() -> None:
    stack = good_stack()
    stack.edit("ray", f"{WORKER}.rayStartParams", {})
    assert said(stack) == []


@pytest.mark.parametrize(("value", "word"), [("4", '"4"'), (None, "nothing")])
def test_a_head_that_runs_work_is_refused(value: Value, word: str) -> None:
    stack = good_stack()
    stack.edit("ray", "spec.headGroupSpec.rayStartParams", {} if value is None else {"num-cpus": value})
    assert said(stack) == found(
        "ray-requests",
        "ray",
        f'found rayStartParams num-cpus {word} in spec.headGroupSpec of ray; allowed: "0"; '
        "why: Ray would start tasks on the head, which has no GPU and keeps the cluster's state; "
        'fix: set rayStartParams num-cpus of the head to "0"',
    )


@pytest.mark.parametrize(
    ("path", "unknown", "then"),
    [
        (f"{AMOUNTS}.limits.cpu", "spec.workerGroupSpecs[0] cpu", "the request equals the limit"),
        (f"{AMOUNTS}.limits", "spec.workerGroupSpecs[0] resources.limits", "requests equal limits"),
        (
            f"{WORKER}.rayStartParams.num-gpus",
            "spec.workerGroupSpecs[0] num-gpus or nvidia.com/gpu",
            "Ray's num-gpus equals the GPU limit",
        ),
        (
            "spec.headGroupSpec.rayStartParams",
            "spec.headGroupSpec.rayStartParams",
            "the head's num-cpus is 0",
        ),
    ],
)
def test_unknown_amounts_are_not_checked(path: str, unknown: str, then: str) -> None:
    stack = good_stack()
    stack.edit("ray", path, UNKNOWN)
    message = f"not checked yet: {unknown} is known only at up; then checked: {then}"
    assert Said("ray-requests", "not-checked", "ray", message) in said(stack)
    assert {s.level for s in said(stack)} == {"not-checked"}


def test_r25_two_workers_a_node_never_fit() -> None:
    stack = good_stack()
    stack.edit("ray", f"{WORKER}.replicas", 4)
    ask(stack, tokens.GPU, 2)
    stack.edit("ray", f"{WORKER}.rayStartParams", {"num-gpus": "2"})
    assert said(stack) == found(
        "workers-fit",
        "ray",
        "found 4 pods of workers gpu, each with 2 GPUs and 1 EFA; "
        f"allowed: at most 2 such pods on 2 x g6.12xlarge with 4 GPUs and 1 EFA each; {FIT}",
    )


def test_r25_more_efa_than_the_node_has_never_fits() -> None:
    stack = good_stack()
    ask(stack, tokens.EFA, 2)
    assert said(stack) == found(
        "workers-fit",
        "ray",
        "found 2 pods of workers gpu, each with 4 GPUs and 2 EFA; "
        f"allowed: at most 0 such pods on 2 x g6.12xlarge with 4 GPUs and 1 EFA each; {FIT}",
    )


def test_r24_efa_asked_for_on_nodes_without_it_never_fits() -> None:
    stack = good_stack()
    stack.edit("template", "networkInterfaces.0.interfaceType", "interface")
    assert said(stack) == found(
        "workers-fit",
        "ray",
        "found 2 pods of workers gpu, each with 4 GPUs and 1 EFA; "
        f"allowed: at most 0 such pods on 2 x g6.12xlarge with 4 GPUs and 0 EFA each; {FIT}",
    )


def test_more_gpus_than_the_node_has_never_fit() -> None:
    stack = good_stack()
    ask(stack, tokens.GPU, 8)
    stack.edit("ray", f"{WORKER}.rayStartParams", {"num-gpus": "8"})
    assert [(s.rule, s.level) for s in said(stack)] == [("workers-fit", "violation")]


def test_hosts_of_a_replica_count() -> None:
    stack = good_stack()
    stack.edit("ray", f"{WORKER}.numOfHosts", 2)
    assert [s.message.split(";")[0] for s in said(stack)] == ["found 4 pods of workers gpu, each with 4 GPUs and 1 EFA"]


@pytest.mark.parametrize(("least", "pods"), [(None, None), (2, None), (3, 3)])
def test_absent_replicas_are_the_least_that_may_run(least: int | None, pods: int | None) -> None:
    stack = good_stack()
    stack.edit("ray", f"{WORKER}.replicas", None)
    if least is not None:
        stack.edit("ray", f"{WORKER}.minReplicas", least)
    counts = [f"found {pods} pods of workers gpu, each with 4 GPUs and 1 EFA"] if pods else []
    assert [s.message.split(";")[0] for s in said(stack)] == counts


def test_three_workers_do_not_fit_two_nodes() -> None:
    stack = good_stack()
    stack.edit("ray", f"{WORKER}.replicas", 3)
    assert [(s.rule, s.level) for s in said(stack)] == [("workers-fit", "violation")]


@pytest.mark.parametrize("resource_and_path", [("gpu", "scalingConfig.maxSize"), ("ray", f"{WORKER}.replicas")])
def test_unknown_sizes_are_not_checked(resource_and_path: tuple[str, str]) -> None:
    stack = good_stack()
    stack.edit(*resource_and_path, UNKNOWN)
    message = (
        "not checked yet: size, instance type or EFA of node group gpu is known only at up; then checked: workers fit"
    )
    assert said(stack) == [Said("workers-fit", "not-checked", "ray", message)]


SERVE = (
    "allowed: neither the serve annotation nor port 8000; "
    "why: the readiness probe then waits for a Serve application, so the pod is never Ready; "
    "fix: remove it: training uses no Ray Serve"
)


def test_r45_the_serve_annotation_is_refused() -> None:
    stack = good_stack()
    stack.edit("ray", "metadata.annotations", {"ray.io/enable-serve-service": "true"})
    message = f'found annotation ray.io/enable-serve-service "true" of ray; {SERVE}'
    assert said(stack) == found("no-serve", "ray", message)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ports", [{"containerPort": 8000}]),
        ("readinessProbe", {"httpGet": {"path": "/-/health", "port": 8000}}),
        ("livenessProbe", {"httpGet": {"port": "8000"}}),
    ],
)
def test_r45_port_8000_is_refused(key: str, value: Value) -> None:
    stack = good_stack()
    stack.edit("ray", f"{WORKER}.template.spec.containers.0.{key}", value)
    message = f"found port 8000 in spec.workerGroupSpecs[0].template.spec of ray; {SERVE}"
    assert said(stack) == found("no-serve", "ray", message)


@pytest.mark.parametrize("path", ["metadata.annotations", f"{WORKER}.template.spec.containers.0.readinessProbe"])
def test_unknown_serve_parts_are_not_checked(path: str) -> None:
    stack = good_stack()
    stack.edit("ray", path, UNKNOWN)
    assert [(s.rule, s.level) for s in said(stack)] == [("no-serve", "not-checked")]


def test_a_ray_service_may_serve() -> None:
    stack = good_stack()
    spec = {"rayClusterConfig": stack.resources["ray"].props["spec"]}
    annotations = {"annotations": {"ray.io/enable-serve-service": "true"}}
    stack.add("serving", "kubernetes:ray.io/v1:RayService", {"metadata": annotations, "spec": spec})
    assert [s for s in said(stack) if s.rule == "no-serve"] == []


def test_workers_without_gpus_and_efa_are_not_counted_against_the_gpu_nodes() -> None:
    stack = good_stack()
    amounts: dict[str, Value] = {"cpu": "1", "memory": "1Gi"}
    container: Value = {"image": "a@sha256:" + "0" * 64, "resources": {"requests": amounts, "limits": amounts}}
    workers = at(stack.resources["ray"].props, "spec", "workerGroupSpecs", 0)
    cpu: Value = {"groupName": "cpu", "replicas": 50, "template": {"spec": {"containers": [container]}}}
    stack.edit("ray", "spec.workerGroupSpecs", [workers, cpu])
    assert said(stack) == []
