"""Who may speak to whom in the namespace: nobody, but for what Ray, DNS and AWS need.

EFA traffic does not pass the CNI, so these policies do not see it; the EFA security group is the guard there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

DASHBOARD_PORT = 8265
POD_IDENTITY_AGENT = "169.254.170.23/32"
"""The EKS Pod Identity agent of each node. Source: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html."""

Rule = Mapping[str, Any]


def policies(*, cluster: str, operator_namespace: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the spec of each NetworkPolicy by its name."""
    ray_pods = {"matchLabels": {"ray.io/cluster": cluster}}
    head_pods = {"matchLabels": {"ray.io/cluster": cluster, "ray.io/node-type": "head"}}
    operator = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": operator_namespace}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "kuberay-operator"}},
    }
    cluster_dns = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    }
    return {
        "default-deny": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
        # Workers, their NCCL sockets and the object store use ports of their own choice.
        "ray-peers": _both(
            ray_pods, ingress=[{"from": [{"podSelector": ray_pods}]}], egress=[{"to": [{"podSelector": ray_pods}]}]
        ),
        "operator-to-dashboard": _both(head_pods, ingress=[{"from": [operator], "ports": [_port(DASHBOARD_PORT)]}]),
        "dns": _both({}, egress=[{"to": [cluster_dns], "ports": [_port(53, "UDP"), _port(53)]}]),
        "pod-identity": _both({}, egress=[{"to": [{"ipBlock": {"cidr": POD_IDENTITY_AGENT}}], "ports": [_port(80)]}]),
        # S3, the Hugging Face Hub and the Kubernetes API; the node's metadata service is neither here nor on this port.
        "https-out": _both({}, egress=[{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [_port(443)]}]),
    }


def _both(pods: Rule, *, ingress: Sequence[Rule] = (), egress: Sequence[Rule] = ()) -> Mapping[str, Any]:
    types = [name for name, rules in (("Ingress", ingress), ("Egress", egress)) if rules]
    given = {"ingress": list(ingress), "egress": list(egress)}
    return {"podSelector": pods, "policyTypes": types, **{key: rules for key, rules in given.items() if rules}}


def _port(number: int, protocol: str = "TCP") -> Rule:
    return {"protocol": protocol, "port": number}


class NetworkPolicies(pulumi.ComponentResource):
    """Every NetworkPolicy of the namespace."""

    resources: Sequence[pulumi.Resource]

    def __init__(
        self,
        name: str,
        *,
        namespace: str,
        cluster: str,
        operator_namespace: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("efa-ray-train:workloads:NetworkPolicies", name, None, opts)
        self.resources = [
            kubernetes.networking.v1.NetworkPolicy(
                f"{name}-{policy}",
                metadata=kubernetes.meta.v1.ObjectMetaArgs(name=policy, namespace=namespace),
                spec=spec,  # pyright: ignore[reportArgumentType]
                opts=pulumi.ResourceOptions(parent=self),
            )
            for policy, spec in policies(cluster=cluster, operator_namespace=operator_namespace).items()
        ]
        self.register_outputs({})
