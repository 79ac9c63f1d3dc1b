"""The kubeconfig of a cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from rehearsal.local_aws import kube


def kubeconfig(
    cluster: str, endpoint: str, authority: str, region: str, *, profile: str | None, role: str | None
) -> Mapping[str, Any]:
    """Give a kubeconfig: as pulumi-eks makes it, with `aws eks get-token`, or with the user of the local cluster.

    A local cluster knows no AWS tokens, so its own user stands where the AWS command line would.
    """
    local = kube.local_cluster()
    server: dict[str, Any] = {"server": endpoint}
    if authority or local is None:
        server["certificate-authority-data"] = authority
    return {
        "apiVersion": "v1",
        "clusters": [{"cluster": server, "name": "kubernetes"}],
        "contexts": [{"context": {"cluster": "kubernetes", "user": "aws"}, "name": "aws"}],
        "current-context": "aws",
        "kind": "Config",
        "users": [
            {"name": "aws", "user": local.user if local is not None else _exec_user(cluster, region, profile, role)}
        ],
    }


def _exec_user(cluster: str, region: str, profile: str | None, role: str | None) -> dict[str, Any]:
    arguments = ["--region", region, "eks", "get-token", "--cluster-name", cluster, "--output", "json"]
    if role:
        arguments += ["--role", role]
    if profile:
        arguments += ["--profile", profile]
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": "aws",
            "args": arguments,
            "env": [
                {"name": "KUBERNETES_EXEC_INFO", "value": '{"apiVersion": "client.authentication.k8s.io/v1beta1"}'}
            ],
        }
    }


def ambient_profile() -> str | None:
    """Give the AWS profile that pulumi-eks takes from the environment."""
    return os.environ.get("AWS_PROFILE") or None
