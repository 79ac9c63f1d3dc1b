"""The objects that a cluster starts with: the kinds that kwok is told things by, and kwok's own rights."""

from __future__ import annotations

import http
from collections.abc import Mapping, Sequence
from typing import Final

from rehearsal.cluster.api import Api
from rehearsal.errors import RehearsalError

KWOK_GROUP: Final = "kwok.x-k8s.io"
KWOK_VERSION: Final = "v1alpha1"
KWOK_USER: Final = "rehearsal:kwok"

_PLURALS: Final = {"Exec": "execs", "Logs": "logs", "PortForward": "portforwards"}
_RIGHTS: Final[Sequence[tuple[str, Sequence[str], Sequence[str]]]] = (
    ("", ("nodes",), ("get", "list", "watch", "patch", "update")),
    ("", ("pods",), ("get", "list", "watch", "patch", "update", "delete")),
    ("", ("nodes/status", "pods/status"), ("patch", "update")),
    ("", ("events",), ("create", "patch", "update")),
    ("coordination.k8s.io", ("leases",), ("create", "get", "list", "watch", "patch", "update")),
    (KWOK_GROUP, ("*",), ("get", "list", "watch")),
)


def kwok_definition(kind: str) -> Mapping[str, object]:
    """Return the definition of one of kwok's kinds: `Exec`, `Logs` or `PortForward`.

    It says no more than where the kind is served: kwok reads the fields that it knows. Source of group, version and
    plurals: https://kwok.sigs.k8s.io/docs/generated/apis/.
    """
    plural = _PLURALS[kind]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{KWOK_GROUP}"},
        "spec": {
            "group": KWOK_GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": KWOK_VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                        }
                    },
                }
            ],
        },
    }


def kwok_role() -> Mapping[str, object]:
    """Return the cluster role of kwok."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": KWOK_USER},
        "rules": [
            {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
            for group, resources, verbs in _RIGHTS
        ],
    }


def kwok_role_binding() -> Mapping[str, object]:
    """Return what gives the role to kwok's user."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": KWOK_USER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": KWOK_USER},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": KWOK_USER}],
    }


def create_first_objects(api: Api, port: int) -> None:
    """Create them in a cluster whose API server listens on `port`. Raises RehearsalError when one is refused."""
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    rights = "/apis/rbac.authorization.k8s.io/v1"
    for path, document in (
        *((definitions, kwok_definition(kind)) for kind in _PLURALS),
        (f"{rights}/clusterroles", kwok_role()),
        (f"{rights}/clusterrolebindings", kwok_role_binding()),
    ):
        answer = api.ask(port, path, method="POST", body=document)
        if answer.status not in (http.HTTPStatus.CREATED, http.HTTPStatus.CONFLICT):
            raise RehearsalError(
                f"kube-apiserver: POST {path}: found {answer.status} {answer.text[:300]}; 201 is expected of a new cluster"
            )


def why_not_served(api: Api, port: int) -> str | None:
    """Return None when the API server serves all kinds of kwok, else which it does not serve yet."""
    for plural in _PLURALS.values():
        path = f"/apis/{KWOK_GROUP}/{KWOK_VERSION}/{plural}"
        if (why := api.why_unwell(port, f"{path}?limit=1")) is not None:
            return why
    return None
