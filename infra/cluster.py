"""The EKS control plane, who may use it, and the add-ons that nodes need before pods run on them."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks
import pulumi_kubernetes as kubernetes

import versions
from infra.addons import addon
from infra.encryption import cluster_key
from infra.tags import Tagger

LOG_RETENTION_DAYS = 30
ADMIN_POLICY = "arn:{0}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterArgs:
    """What the control plane is made from."""

    vpc_id: pulumi.Input[str]
    vpc_cidr: str
    subnet_ids: pulumi.Input[list[str]]
    service_cidr: str
    public_cidrs: tuple[str, ...]
    """Ranges that reach the Kubernetes API from outside; empty keeps it inside the VPC."""
    admins: tuple[str, ...]
    log_types: tuple[str, ...]
    addon_versions: Mapping[str, str]
    tag: Tagger


class Cluster(pulumi.ComponentResource):
    """An EKS cluster with access by API entries alone, encrypted secrets and pinned networking add-ons."""

    name: pulumi.Output[str]
    kubeconfig: pulumi.Output[str]
    """JSON; secret."""
    security_group_id: pulumi.Output[str]
    """The group that EKS makes for control plane and nodes; a node outside it never joins."""
    key_arn: pulumi.Output[str]
    control_plane: eks.Cluster
    provider: kubernetes.Provider
    networking: list[pulumi.Resource]
    """Add-ons that a node needs to become Ready."""

    def __init__(self, name: str, args: ClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("efa-ray-train:infra:Cluster", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        key = cluster_key(name, tag=args.tag, opts=child)
        # Left to itself, EKS makes this group without retention, and it outlives the stack.
        logs = aws.cloudwatch.LogGroup(
            name,
            name=f"/aws/eks/{name}/cluster",
            retention_in_days=LOG_RETENTION_DAYS,
            tags=args.tag("cluster-logs"),
            opts=child,
        )
        self.control_plane = eks.Cluster(
            name,
            name=name,
            vpc_id=args.vpc_id,
            private_subnet_ids=args.subnet_ids,
            version=versions.KUBERNETES,
            kubernetes_service_ip_address_range=args.service_cidr,
            authentication_mode=eks.AuthenticationMode.API,
            endpoint_private_access=True,
            endpoint_public_access=bool(args.public_cidrs),
            public_access_cidrs=list(args.public_cidrs) or None,
            enabled_cluster_log_types=list(args.log_types),
            encryption_config_key_arn=key.arn,
            # Managed node groups join through the group that EKS makes; further groups would only be more to open by mistake.
            skip_default_security_groups=True,
            skip_default_node_group=True,
            create_oidc_provider=False,
            # Every add-on is ours (infra/addons.py), so that none comes unmanaged or at another version.
            bootstrap_self_managed_addons=False,
            use_default_vpc_cni=True,
            kube_proxy_addon_options=eks.KubeProxyAddonOptionsArgs(enabled=False),
            coredns_addon_options=eks.CoreDnsAddonOptionsArgs(enabled=False),
            tags=args.tag("cluster"),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[logs]),
        )
        self.name = self.control_plane.eks_cluster.name
        self._grant(name, args)
        self.networking = [
            addon(
                f"{name}-{add_on}",
                add_on,
                cluster_name=self.name,
                version=args.addon_versions.get(add_on),
                configuration=configuration,
                tag=args.tag,
                opts=pulumi.ResourceOptions(parent=self, deleted_with=self.control_plane),
            )
            # Without the switch the CNI accepts NetworkPolicies and enforces none.
            for add_on, configuration in (
                ("vpc-cni", {"enableNetworkPolicy": "true"}),
                ("kube-proxy", {}),
                ("eks-pod-identity-agent", {}),
            )
        ]
        self.kubeconfig = pulumi.Output.secret(self.control_plane.kubeconfig_json)
        self.security_group_id = self.control_plane.cluster_security_group_id
        if not args.public_cidrs:
            self._admit(name, args)
        self.key_arn = key.arn
        self.provider = kubernetes.Provider(
            name, kubeconfig=self.kubeconfig, enable_server_side_apply=True, opts=pulumi.ResourceOptions(parent=self)
        )
        self.register_outputs({"name": self.name})

    def _admit(self, name: str, args: ClusterArgs) -> None:
        """Open the private endpoint to the VPC: EKS's own group admits its members alone, so no bastion, VPN or peer."""
        aws.vpc.SecurityGroupIngressRule(
            f"{name}-api",
            security_group_id=self.security_group_id,
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            cidr_ipv4=args.vpc_cidr,
            description="Kubernetes API from the VPC",
            tags=args.tag("api"),
            opts=pulumi.ResourceOptions(parent=self, deleted_with=self.control_plane),
        )

    def _grant(self, name: str, args: ClusterArgs) -> None:
        """Let further principals administer the cluster; its creator already may."""
        partition = aws.get_partition_output().partition
        for arn in dict.fromkeys(args.admins):
            # ACCOUNT-role-PATH-NAME: the last part alone may belong to a role and to a user.
            who = "-".join(arn.split(":")[4:]).replace("/", "-")
            options = pulumi.ResourceOptions(parent=self, deleted_with=self.control_plane)
            entry = aws.eks.AccessEntry(
                f"{name}-{who}",
                cluster_name=self.name,
                principal_arn=arn,
                type="STANDARD",
                tags=args.tag(who),
                opts=options,
            )
            aws.eks.AccessPolicyAssociation(
                f"{name}-{who}",
                cluster_name=self.name,
                principal_arn=entry.principal_arn,
                policy_arn=pulumi.Output.format(ADMIN_POLICY, partition),
                access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
                opts=options,
            )
