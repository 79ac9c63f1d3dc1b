import pytest

from policies.values import UNKNOWN, Value
from tests.policies.good_stack import Said, found, good_stack, said

WHY_AND_FIX = (
    "why: whoever reaches dashboard (8265), GCS (6379) or Ray client (10001) runs code on the GPUs; "
    "fix: use ClusterIP and `kubectl port-forward`"
)
HEAD = "spec.headGroupSpec"
POD = "spec.workerGroupSpecs.0.template.spec"


@pytest.mark.parametrize("kind", ["LoadBalancer", "NodePort"])
def test_an_open_service_is_refused(kind: str) -> None:
    stack = good_stack()
    stack.edit("service", "spec.type", kind)
    message = f"found spec.type {kind} in Service service; allowed: ClusterIP; {WHY_AND_FIX}"
    assert said(stack) == found("nothing-exposed", "service", message)


@pytest.mark.parametrize(
    "type_",
    [
        "kubernetes:networking.k8s.io/v1:Ingress",
        "kubernetes:extensions/v1beta1:Ingress",
        "kubernetes:gateway.networking.k8s.io/v1:Gateway",
        "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute",
    ],
)
def test_an_ingress_of_any_kind_is_refused(type_: str) -> None:
    stack = good_stack()
    stack.add("door", type_, {"spec": {}})
    kind = type_.rpartition(":")[2]
    message = f"found {kind} door; allowed: no Ingress or Gateway; {WHY_AND_FIX}"
    assert said(stack) == found("nothing-exposed", "door", message)


@pytest.mark.parametrize("path", ["serviceType", "headService.spec.type"])
@pytest.mark.parametrize("kind", ["LoadBalancer", "NodePort"])
def test_an_open_head_service_is_refused(path: str, kind: str) -> None:
    stack = good_stack()
    stack.edit("ray", f"{HEAD}.{path}", kind)
    message = f"found {HEAD}.{path} {kind} in RayCluster ray; allowed: ClusterIP; {WHY_AND_FIX}"
    assert said(stack) == found("nothing-exposed", "ray", message)


def test_an_ingress_of_the_head_is_refused() -> None:
    stack = good_stack()
    stack.edit("ray", f"{HEAD}.enableIngress", True)
    message = f"found {HEAD}.enableIngress true in RayCluster ray; allowed: false; {WHY_AND_FIX}"
    assert said(stack) == found("nothing-exposed", "ray", message)


def test_host_network_is_refused() -> None:
    stack = good_stack()
    stack.edit("ray", f"{POD}.hostNetwork", True)
    message = (
        "found spec.workerGroupSpecs[0].template.spec.hostNetwork true in RayCluster ray; "
        f"allowed: pods with a network of their own; {WHY_AND_FIX}"
    )
    assert said(stack) == found("nothing-exposed", "ray", message)


def test_a_host_port_is_refused() -> None:
    stack = good_stack()
    stack.edit("ray", f"{HEAD}.template.spec.containers.0.ports", [{"containerPort": 8265, "hostPort": 8265}])
    message = (
        "found hostPort 8265 in spec.headGroupSpec.template.spec of RayCluster ray; "
        f"allowed: no hostPort; {WHY_AND_FIX}"
    )
    assert said(stack) == found("nothing-exposed", "ray", message)


@pytest.mark.parametrize(
    ("values", "words", "allowed"),
    [
        ({"service": {"type": "NodePort"}}, "values.service.type NodePort", "ClusterIP"),
        ({"a": {"service": {"type": "LoadBalancer"}}}, "values.a.service.type LoadBalancer", "ClusterIP"),
        ({"ingress": {"enabled": True}}, "values.ingress.enabled true", "false"),
    ],
)
def test_chart_values_that_open_a_service_are_refused(values: Value, words: str, allowed: str) -> None:
    stack = good_stack()
    stack.edit("operator", "values", values)
    message = f"found {words} in release operator; allowed: {allowed}; {WHY_AND_FIX}"
    assert said(stack) == found("nothing-exposed", "operator", message)


@pytest.mark.parametrize(
    ("resource", "path", "unknown", "then"),
    [
        ("service", "spec.type", "spec.type", "services are ClusterIP"),
        ("ray", f"{HEAD}.serviceType", f"{HEAD}.serviceType", "services are ClusterIP"),
        ("ray", f"{HEAD}.enableIngress", f"{HEAD}.enableIngress", "Ray makes no Ingress"),
        (
            "ray",
            f"{POD}.hostNetwork",
            "spec.workerGroupSpecs[0].template.spec.hostNetwork",
            "Ray's pods do not use the node's network or ports",
        ),
        (
            "ray",
            f"{HEAD}.template.spec.containers.0.ports",
            "a hostPort in spec.headGroupSpec.template.spec",
            "Ray's pods take no port of the node",
        ),
        ("operator", "values", "values", "the chart's values open no service"),
    ],
)
def test_unknown_entrances_are_not_checked(resource: str, path: str, unknown: str, then: str) -> None:
    stack = good_stack()
    stack.edit(resource, path, UNKNOWN)
    message = f"not checked yet: {unknown} is known only at up; then checked: {then}"
    assert Said("nothing-exposed", "not-checked", resource, message) in said(stack)
    assert {s.level for s in said(stack)} == {"not-checked"}


def test_an_unknown_ray_cluster_is_not_checked_by_every_rule_that_reads_it() -> None:
    stack = good_stack()
    stack.edit("ray", "spec", UNKNOWN)
    assert {(s.rule, s.level) for s in said(stack)} == {
        (rule, "not-checked")
        for rule in ("image-digest", "no-hidden-aws", "no-serve", "nothing-exposed", "one-gpu-zone", "ray-requests")
    } | {("workers-fit", "not-checked")}


def test_what_opens_nothing_passes() -> None:
    stack = good_stack()
    stack.edit("service", "spec.type", "ExternalName")
    stack.edit("operator", "values", {"type": "ClusterIP", "mode": "NodePort", "ingress": {"enabled": False}})
    stack.edit("ray", f"{HEAD}.template.spec.containers.0.ports", [{"containerPort": 8265, "hostPort": 0}])
    stack.edit("ray", f"{HEAD}.enableIngress", False)
    stack.add("plain", "kubernetes:apps/v1:DaemonSet", {"spec": {"template": {"spec": {"hostNetwork": True}}}})
    assert said(stack) == []


def test_a_head_of_type_external_name_is_refused() -> None:
    stack = good_stack()
    stack.edit("ray", f"{HEAD}.serviceType", "ExternalName")
    message = f"found {HEAD}.serviceType ExternalName in RayCluster ray; allowed: ClusterIP; {WHY_AND_FIX}"
    assert said(stack) == found("nothing-exposed", "ray", message)
