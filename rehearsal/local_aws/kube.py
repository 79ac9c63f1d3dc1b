"""Where the cluster that stands in for an EKS control plane is: what DescribeCluster answers as endpoint and CA.

EFA_RAY_TRAIN_KUBECONFIG names a kubeconfig file whose current context is that cluster; EFA_RAY_TRAIN_KUBE_ENDPOINT,
EFA_RAY_TRAIN_KUBE_CA (base64 of the PEM) and EFA_RAY_TRAIN_KUBE_TOKEN say the same without a file. Neither: there is no such
cluster, and the endpoint is one that does not answer.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FILE, ENDPOINT, AUTHORITY, TOKEN = (
    "EFA_RAY_TRAIN_KUBECONFIG",
    "EFA_RAY_TRAIN_KUBE_ENDPOINT",
    "EFA_RAY_TRAIN_KUBE_CA",
    "EFA_RAY_TRAIN_KUBE_TOKEN",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeCluster:
    """A Kubernetes API server: its address, CA (base64 of the PEM) and a kubeconfig user that may reach it."""

    endpoint: str
    authority: str
    user: dict[str, Any] = field(default_factory=dict[str, Any])


def local_cluster() -> KubeCluster | None:
    """Read the local cluster from the environment.

    Raises:
        ValueError: the kubeconfig file is missing, or is none.
    """
    path = os.environ.get(FILE)
    if path:
        return _from_file(Path(path))
    endpoint = os.environ.get(ENDPOINT)
    if not endpoint:
        return None
    token = os.environ.get(TOKEN)
    return KubeCluster(
        endpoint=endpoint, authority=os.environ.get(AUTHORITY, ""), user={"token": token} if token else {}
    )


def _from_file(path: Path) -> KubeCluster:
    if not path.is_file():
        raise ValueError(f"{FILE}: no such file: {path}; unset it or start the local cluster")
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    try:
        current = document["current-context"]
        context = next(entry["context"] for entry in document["contexts"] if entry["name"] == current)
        cluster = next(entry["cluster"] for entry in document["clusters"] if entry["name"] == context["cluster"])
        user = next(entry["user"] for entry in document["users"] if entry["name"] == context["user"])
        return KubeCluster(
            endpoint=cluster["server"], authority=cluster.get("certificate-authority-data", ""), user=user or {}
        )
    except (KeyError, TypeError, StopIteration) as error:
        raise ValueError(f"{FILE}: {path} is no kubeconfig with a complete current context") from error
