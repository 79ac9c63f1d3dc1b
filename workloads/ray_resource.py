"""A KubeRay resource with a status that the program can read."""

from collections.abc import Mapping
from typing import Any

import pulumi

API_VERSION = "ray.io/v1"
WAIT_FOR = "pulumi.com/waitFor"
TIMEOUT_SECONDS = "pulumi.com/timeoutSeconds"
Manifest = Mapping[str, Any]


class RayResource(pulumi.CustomResource):
    """A RayCluster or RayJob, made by the Kubernetes provider as any custom resource is.

    `pulumi_kubernetes.apiextensions.CustomResource` would make it too, but declares no `status`, so its outputs lack the one thing that
    tells how a job ended.
    """

    metadata: pulumi.Output[Mapping[str, Any]]
    status: pulumi.Output[Mapping[str, Any] | None]

    def __init__(self, name: str, manifest: Manifest, opts: pulumi.ResourceOptions) -> None:
        super().__init__(f"kubernetes:{API_VERSION}:{manifest['kind']}", name, {**manifest, "status": None}, opts)
