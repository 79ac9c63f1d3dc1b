"""The Kubernetes API as the rehearsal uses it: lightkube's client, with the types that it leaves open."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from lightkube import Client, KubeConfig, generic_resource
from lightkube.core.exceptions import ApiError
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import DaemonSet
from lightkube.resources.core_v1 import Node, NodeStatus, Pod, PodStatus, Secret
from lightkube.types import PatchType

_Object = TypeVar("_Object", Node, Pod, DaemonSet, Secret)
Body = Mapping[str, object]


class _Patch(Protocol):
    def __call__(
        self, res: type[object], name: str, obj: Body, *, patch_type: PatchType, namespace: str | None = None
    ) -> object: ...


class _List(Protocol):
    def __call__(
        self, res: type[_Object], *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Iterable[_Object]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A Helm release; `status` is Helm's own: deployed, pending-install, failed and others."""

    namespace: str
    name: str
    status: str


class Kubernetes:
    """One cluster, reached as the user of a kubeconfig. Every method raises lightkube's ApiError when the server refuses."""

    def __init__(self, kubeconfig: Path) -> None:
        # No proxy of the environment takes part: the server is on this machine.
        self._client = Client(KubeConfig.from_file(str(kubeconfig)), trust_env=False)
        self._patch = cast(_Patch, cast(Any, self._client).patch)
        self._list = cast(_List, cast(Any, self._client).list)

    def nodes(self) -> list[Node]:
        """Return every node."""
        return list(self._list(Node))

    def pods(self) -> list[Pod]:
        """Return every pod of every namespace."""
        return list(self._list(Pod, namespace="*"))

    def daemon_sets(self) -> list[DaemonSet]:
        """Return every DaemonSet of every namespace."""
        return list(self._list(DaemonSet, namespace="*"))

    def releases(self) -> list[Release]:
        """Return every Helm release, as its newest revision has it."""
        found: dict[tuple[str, str], tuple[int, Release]] = {}
        for secret in self._list(Secret, namespace="*", labels={"owner": "helm"}):
            labels, namespace = (
                labels_of(secret.metadata),
                (secret.metadata.namespace if secret.metadata else None) or "",
            )
            release = Release(namespace=namespace, name=labels["name"], status=labels["status"])
            revision = int(labels["version"])
            found[namespace, release.name] = max(
                found.get((namespace, release.name), (0, release)), (revision, release), key=lambda entry: entry[0]
            )
        return [release for _, release in found.values()]

    def secret_value(self, namespace: str, name: str, key: str) -> bytes | None:
        """Return a value of a Secret, None when there is no such Secret or key."""
        with missing_is_fine():
            data = _texts(cast(Any, self._client.get(Secret, name, namespace=namespace)).data)
            return base64.b64decode(data[key]) if key in data else None
        return None

    def create_node(self, node: Node) -> None:
        """Create a node; one of that name may be there."""
        try:
            self._client.create(node)
        except ApiError as error:
            if error.status.code != HTTPStatus.CONFLICT:
                raise

    def patch_node(self, name: str, body: Body) -> None:
        """Merge `body` into a node."""
        self._patch(Node, name, body, patch_type=PatchType.MERGE)

    def patch_node_status(self, name: str, status: Body) -> None:
        """Merge `status` into the status of a node."""
        self._patch(NodeStatus, name, {"status": status}, patch_type=PatchType.MERGE)

    def delete_node(self, name: str) -> None:
        """Delete a node, which may be gone."""
        with missing_is_fine():
            self._client.delete(Node, name)

    def annotate_pod(self, namespace: str, name: str, annotations: Mapping[str, str]) -> None:
        """Set annotations of a pod, which may be gone."""
        with missing_is_fine():
            body: dict[str, Any] = {"metadata": {"annotations": dict(annotations)}}
            self._patch(Pod, name, body, namespace=namespace, patch_type=PatchType.MERGE)

    def patch_pod_status(self, namespace: str, name: str, status: Body) -> None:
        """Merge `status` into the status of a pod, which may be gone."""
        with missing_is_fine():
            self._patch(PodStatus, name, {"status": status}, namespace=namespace, patch_type=PatchType.MERGE)

    def put(self, plural: str, document: Body) -> None:
        """Create an object of a custom kind, or give the one that is there this spec."""
        group, _, version = str(document["apiVersion"]).partition("/")
        kind, metadata = str(document["kind"]), cast(dict[str, str], document["metadata"])
        resource = cast(Any, generic_resource).create_namespaced_resource(group, version, kind, plural)
        try:
            self._client.create(resource.from_dict(dict(document)), namespace=metadata["namespace"])
        except ApiError as error:
            if error.status.code != HTTPStatus.CONFLICT:
                raise
            spec = {"spec": document["spec"]}
            self._patch(resource, metadata["name"], spec, namespace=metadata["namespace"], patch_type=PatchType.MERGE)

    def remove_pod(self, namespace: str, name: str) -> None:
        """Delete a pod at once, as the kubelet does when its containers have ended; it may be gone."""
        with missing_is_fine():
            self._client.delete(Pod, name, namespace=namespace, grace_period=0)


@contextlib.contextmanager
def missing_is_fine() -> Generator[None]:
    """Go on where the object that was there a moment ago is not."""
    try:
        yield
    except ApiError as error:
        if error.status.code != HTTPStatus.NOT_FOUND:
            raise


def labels_of(metadata: ObjectMeta | None) -> Mapping[str, str]:
    """Return the labels of an object."""
    return _texts(cast(Any, metadata).labels) if metadata else {}


def annotations_of(metadata: ObjectMeta | None) -> Mapping[str, str]:
    """Return the annotations of an object."""
    return _texts(cast(Any, metadata).annotations) if metadata else {}


def allocatable_of(node: Node) -> Mapping[str, str]:
    """Return the allocatable quantities of a node, by resource."""
    return _texts(cast(Any, node.status).allocatable) if node.status else {}


def as_document(model: object) -> Body:
    """Return a model of lightkube's as the JSON that the API has."""
    return cast(Body, cast(Any, model).to_dict())


def _texts(found: dict[str, str] | None) -> Mapping[str, str]:
    return found or {}
