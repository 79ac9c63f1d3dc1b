"""The namespace of the job, and the service account that its pods run as."""

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from infra.identity import SERVICE_ACCOUNT


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceArgs:
    """Name of the namespace."""

    name: str


class Namespace(pulumi.ComponentResource):
    """A namespace that admits no privileged pod, with a service account that Pod Identity knows and Kubernetes' API does not."""

    resources: list[pulumi.Resource]

    def __init__(self, name: str, args: NamespaceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("efa-ray-train:workloads:Namespace", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        namespace = kubernetes.core.v1.Namespace(
            name,
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name=args.name,
                labels={
                    "pod-security.kubernetes.io/enforce": "baseline",
                    "pod-security.kubernetes.io/enforce-version": "latest",
                    "pod-security.kubernetes.io/warn": "restricted",
                },
            ),
            opts=child,
        )
        account = kubernetes.core.v1.ServiceAccount(
            name,
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=SERVICE_ACCOUNT, namespace=namespace.metadata["name"]),
            automount_service_account_token=False,
            opts=child,
        )
        self.resources = [namespace, account]
        self.register_outputs({})
