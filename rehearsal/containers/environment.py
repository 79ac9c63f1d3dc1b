"""The environment that the kubelet would give a container, with the container's volumes led to folders of this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from lightkube.models.core_v1 import EnvVar

from rehearsal.containers.pods import PodView

SecretValue = Callable[[str, str, str], bytes | None]
"""Gives (namespace, secret, key) its value, None when it is not there."""


class UnresolvedError(Exception):
    """A variable has no value yet; the kubelet would wait for it too."""


def container_environment(pod: PodView, secret: SecretValue, volumes: Path) -> dict[str, str]:
    """Return the variables of the pod's main container.

    A value that is a path below one of the container's volume mounts becomes a path below `volumes`/VOLUME, which exists then.

    Raises UnresolvedError for a Secret that is not there (yet), and for a source that the rehearsal does not know.
    """
    mounts = {mount.mountPath: volumes / mount.name for mount in pod.main.volumeMounts or []}
    found: dict[str, str] = {}
    for variable in pod.main.env or []:
        value = _value(pod, variable, secret)
        if value is not None:
            found[variable.name] = _led(value, mounts)
    return found


def _value(pod: PodView, variable: EnvVar, secret: SecretValue) -> str | None:
    source = variable.valueFrom
    if source is None:
        return variable.value or ""
    if source.fieldRef is not None:
        return _field(pod, source.fieldRef.fieldPath)
    if source.secretKeyRef is not None:
        reference = source.secretKeyRef
        name, key = reference.name or "", reference.key
        data = secret(pod.namespace, name, key)
        if data is not None:
            return data.decode()
        if reference.optional:
            return None
        raise UnresolvedError(f"pod {pod.key}: {variable.name} wants key {key} of Secret {name}, which is not there")
    raise UnresolvedError(
        f"pod {pod.key}: {variable.name} has a source other than value, fieldRef and secretKeyRef; the rehearsal knows those"
    )


def _field(pod: PodView, path: str) -> str:
    known = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace,
        "metadata.uid": pod.uid,
        "spec.nodeName": pod.node,
        "spec.serviceAccountName": pod.spec.serviceAccountName or "default",
        "status.podIP": "127.0.0.1",
        "status.hostIP": "127.0.0.1",
    }
    if path in known:
        return known[path]
    for prefix, values in (("metadata.labels['", pod.labels), ("metadata.annotations['", pod.annotations)):
        if path.startswith(prefix) and path.endswith("']"):
            return values.get(path[len(prefix) : -2], "")
    raise UnresolvedError(f"pod {pod.key}: field {path} is not known to the rehearsal; it knows {', '.join(known)}")


def _led(value: str, mounts: Mapping[str, Path]) -> str:
    for mount, folder in mounts.items():
        if value == mount or value.startswith(f"{mount}/"):
            target = folder / value[len(mount) :].lstrip("/")
            folder.mkdir(parents=True, exist_ok=True)
            return str(target)
    return value
