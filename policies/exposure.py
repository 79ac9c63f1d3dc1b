"""Exposure: dashboard, GCS and Ray client are reached by port-forward only."""

from collections.abc import Iterator, Mapping
from typing import Final

from policies import tokens
from policies.graph import Resource
from policies.pods import is_kubernetes, kind, pods, ray_groups
from policies.rules import Finding, ResourceRule, not_checked, violation
from policies.values import UNKNOWN, Value, at, entries, fields, text, truth

_ENTRANCES: Final = ("Ingress", "IngressClass", "Gateway", "HTTPRoute", "TLSRoute", "TCPRoute", "GRPCRoute")
_OPEN_SERVICES: Final = ("LoadBalancer", "NodePort")
_WHY: Final = "whoever reaches dashboard (8265), GCS (6379) or Ray client (10001) runs code on the GPUs"
_FIX: Final = "use ClusterIP and `kubectl port-forward`"


def check_exposed(resource: Resource) -> Iterator[Finding]:
    """Check that a Kubernetes resource opens nothing to outside the cluster."""
    if not is_kubernetes(resource):
        return
    if kind(resource) in _ENTRANCES:
        yield _exposed(resource, f"{kind(resource)} {resource.name}", "no Ingress or Gateway")
    for path, type_ in _service_types(resource):
        if type_ is UNKNOWN:
            yield not_checked(resource, path, then="services are ClusterIP")
        elif (
            type_ is not None and type_ != "ClusterIP" and not (kind(resource) == "Service" and type_ == "ExternalName")
        ):
            yield _exposed(resource, f"{path} {type_} in {kind(resource)} {resource.name}", "ClusterIP")
    if ray_groups(resource):
        yield from _ingress_of_ray(resource)
        yield from _host_network(resource)
    if resource.type == tokens.HELM_RELEASE:
        yield from _helm_values(resource, at(resource.props, "values"), "values")


def _exposed(resource: Resource, found: str, allowed: str) -> Finding:
    return violation(resource, found, allowed=allowed, why=_WHY, fix=_FIX)


def _service_types(resource: Resource) -> Iterator[tuple[str, Value]]:
    if kind(resource) == "Service" and resource.type.startswith("kubernetes:core/"):
        yield "spec.type", at(resource.props, "spec", "type")
    for group in ray_groups(resource):
        if group.role == "head":
            yield f"{group.path}.serviceType", at(group.body, "serviceType")
            yield f"{group.path}.headService.spec.type", at(group.body, "headService", "spec", "type")


def _ingress_of_ray(resource: Resource) -> Iterator[Finding]:
    for group in ray_groups(resource):
        enabled = truth(at(group.body, "enableIngress")) if group.role == "head" else False
        if enabled is UNKNOWN:
            yield not_checked(resource, f"{group.path}.enableIngress", then="Ray makes no Ingress")
        elif enabled:
            yield _exposed(resource, f"{group.path}.enableIngress true in {kind(resource)} {resource.name}", "false")


def _host_network(resource: Resource) -> Iterator[Finding]:
    for pod in pods(resource):
        host = truth(at(pod.spec, "hostNetwork"))
        if host is UNKNOWN:
            yield not_checked(
                resource, f"{pod.path}.hostNetwork", then="Ray's pods do not use the node's network or ports"
            )
            continue
        if host:
            yield _exposed(
                resource,
                f"{pod.path}.hostNetwork true in {kind(resource)} {resource.name}",
                "pods with a network of their own",
            )
        for container in pod.containers():
            ports = [at(port, "hostPort") for port in entries(at(container, "ports"))]
            if UNKNOWN in ports:
                yield not_checked(resource, f"a hostPort in {pod.path}", then="Ray's pods take no port of the node")
            opened = [port for port in ports if port not in (None, 0, UNKNOWN)]
            if opened:
                found = ", ".join(str(port) for port in opened)
                yield _exposed(
                    resource, f"hostPort {found} in {pod.path} of {kind(resource)} {resource.name}", "no hostPort"
                )


def _helm_values(resource: Resource, value: Value, path: str) -> Iterator[Finding]:
    if path == "values" and value is UNKNOWN:
        yield not_checked(resource, path, then="the chart's values open no service")
    for key, inner in fields(value).items():
        where = f"{path}.{key}"
        if key in ("type", "serviceType") and inner in _OPEN_SERVICES:
            yield _exposed(resource, f"{where} {text(inner)} in release {resource.name}", "ClusterIP")
        elif key == "ingress" and truth(at(inner, "enabled")) is True:
            yield _exposed(resource, f"{where}.enabled true in release {resource.name}", "false")
        elif isinstance(inner, Mapping):
            yield from _helm_values(resource, inner, where)


RULES = (
    ResourceRule(
        id="nothing-exposed",
        what="No LoadBalancer, NodePort, Ingress, Gateway, host network or host port leads to Ray.",
        why=_WHY[0].upper() + _WHY[1:] + ".",
        fix="ClusterIP and `kubectl port-forward`.",
        check=check_exposed,
    ),
)
