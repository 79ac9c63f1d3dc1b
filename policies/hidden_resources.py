"""Nothing inside the cluster makes AWS resources that Pulumi does not know of, since `destroy` would leave them."""

from collections.abc import Iterator, Mapping
from typing import Final

from policies import tokens
from policies.graph import Resource
from policies.pods import is_kubernetes, kind, pods
from policies.rules import Finding, ResourceRule, not_checked, violation
from policies.values import UNKNOWN, Value, at, entries, fields, text, truth

_WHY: Final = "a controller would make a volume that `pulumi destroy` does not know, and that bills on"
_FIX: Final = 'use emptyDir, the bucket, or a volume that the stack itself makes (volumeName and storageClassName "")'
_STATIC: Final = "kubernetes.io/no-provisioner"


def check_hidden(resource: Resource) -> Iterator[Finding]:
    """Check that a Kubernetes resource asks no controller for a dynamic volume."""
    if not is_kubernetes(resource):
        return
    name = f"{kind(resource)} {resource.name}"
    if kind(resource) == "StorageClass":
        provisioner = at(resource.props, "provisioner")
        if provisioner is UNKNOWN:
            yield not_checked(resource, "provisioner", then=f"it is {_STATIC}")
        elif provisioner != _STATIC:
            yield _hidden(resource, f"provisioner {text(provisioner)} in {name}")
    if kind(resource) == "PersistentVolumeClaim":
        yield from _claim(resource, at(resource.props, "spec"), name)
    if kind(resource) == "StatefulSet":
        for template in entries(at(resource.props, "spec", "volumeClaimTemplates")):
            yield from _claim(resource, at(template, "spec"), f"volumeClaimTemplates of {name}")
    for pod in pods(resource):
        for volume in entries(at(pod.spec, "volumes")):
            template = at(volume, "ephemeral", "volumeClaimTemplate")
            if template is not None:
                yield from _claim(resource, at(template, "spec"), f"an ephemeral volume in {pod.path} of {name}")
    if resource.type == tokens.HELM_RELEASE:
        yield from _helm_values(resource, at(resource.props, "values"), "values")


def _claim(resource: Resource, spec: Value, where: str) -> Iterator[Finding]:
    storage_class, volume = at(spec, "storageClassName"), at(spec, "volumeName")
    if storage_class is UNKNOWN:
        yield not_checked(resource, f"storageClassName of {where}", then="it asks for no dynamic volume")
    elif storage_class != "" or volume is None:
        found = f'storage class "{storage_class}"' if isinstance(storage_class, str) else "the default storage class"
        yield _hidden(resource, f"a claim on {found} in {where}")


def _helm_values(resource: Resource, value: Value, path: str) -> Iterator[Finding]:
    if path == "values" and value is UNKNOWN:
        yield not_checked(resource, path, then="the chart's values ask for no dynamic volume")
    for key, inner in fields(value).items():
        where = f"{path}.{key}"
        if key in ("persistence", "persistentVolume") and truth(at(inner, "enabled")) is True:
            yield _hidden(resource, f"{where}.enabled true in release {resource.name}")
        elif isinstance(inner, Mapping):
            yield from _helm_values(resource, inner, where)


def _hidden(resource: Resource, found: str) -> Finding:
    return violation(resource, found, allowed="no dynamically made volume", why=_WHY, fix=_FIX)


RULES = (
    ResourceRule(
        id="no-hidden-aws",
        what="No Kubernetes resource makes a volume in AWS behind Pulumi's back (load balancers: nothing-exposed).",
        why=_WHY[0].upper() + _WHY[1:] + ".",
        fix="emptyDir, the bucket, or a volume that the stack makes.",
        check=check_hidden,
    ),
)
