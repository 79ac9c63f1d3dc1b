"""eks:index:Cluster: a control plane with access entries, and what pulumi-eks makes beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pulumi

from ..sdk_schema import sdk_version
from . import security
from .addons import VpcCniAddon, invoke_options, simple_addon
from .child import Child, ServiceRole, merged_tags, output_of
from .cluster_refusals import refuse
from .kubeconfig import ambient_profile, kubeconfig

CLUSTER_POLICY = "AmazonEKSClusterPolicy"


class Cluster(pulumi.ComponentResource):
    """Makes the children of an eks.Cluster in their names, types and parents."""

    state: dict[str, Any]

    def __init__(self, name: str, inputs: Mapping[str, Any], options: pulumi.ResourceOptions | None) -> None:
        refuse(name, inputs)
        super().__init__("eks:index:Cluster", name, dict(inputs), options)
        self._stem, self._inputs = name, inputs
        self._child = pulumi.ResourceOptions(parent=self)
        role_arn, after = self._role()
        own_groups = not inputs.get("skipDefaultSecurityGroups")
        group = (
            security.cluster_group(name, inputs, self._child)
            if own_groups or inputs.get("clusterSecurityGroup")
            else None
        )
        cluster = self._cluster(role_arn, group, after)
        self._cluster_addons(cluster)
        self._access_entries(cluster)
        node_group, ingress = (
            security.node_group(name, inputs, group, cluster, self._child) if own_groups and group else (None, None)
        )
        config = self._kubeconfig(cluster, profile=None)
        provider = self._kubernetes(self._kubeconfig(cluster, profile=ambient_profile()))
        self.state = self._outputs(cluster, provider, config, group, node_group, ingress)
        self.register_outputs(self.state)

    def _role(self) -> tuple[pulumi.Output[str], list[pulumi.Resource]]:
        given = self._inputs.get("serviceRole")
        if given is not None:
            return output_of(given, "arn"), []
        partition = pulumi.runtime.invoke_output("aws:index/getPartition:getPartition", {}, invoke_options(self))
        arn = partition.apply(lambda found: f"arn:{found['partition']}:iam::aws:policy/{CLUSTER_POLICY}")
        role = ServiceRole(
            f"{self._stem}-eksRole",
            service="eks.amazonaws.com",
            description="Allows EKS to manage clusters on your behalf.",
            policies=[(f"arn:aws:iam::aws:policy/{CLUSTER_POLICY}", arn)],
            tags=self._inputs.get("tags"),
            actions=["sts:AssumeRole", "sts:TagSession"],
            options=self._child,
        )
        return role.role.output("arn"), [role.role, *role.attachments]

    def _subnets(self) -> Any:
        if self._inputs.get("subnetIds") is not None:
            return self._inputs["subnetIds"]
        public: Any = self._inputs.get("publicSubnetIds") or []
        private: Any = self._inputs.get("privateSubnetIds") or []
        return pulumi.Output.all(public=public, private=private).apply(
            lambda found: [*found["public"], *found["private"]]
        )

    def _cluster(
        self, role_arn: pulumi.Output[str], group: pulumi.Resource | None, after: list[pulumi.Resource]
    ) -> Child:
        inputs, name = self._inputs, self._stem
        key = inputs.get("encryptionConfigKeyArn")
        # As one output: with a key that is not known yet, the whole block is not known.
        encryption = pulumi.Output.from_input(key).apply(
            lambda arn: {"provider": {"keyArn": arn}, "resources": ["secrets"]}
        )
        network = {
            "serviceIpv4Cidr": inputs.get("kubernetesServiceIpAddressRange"),
            "ipFamily": inputs.get("ipFamily") or "ipv4",
        }
        has_network = inputs.get("kubernetesServiceIpAddressRange") or inputs.get("ipFamily")
        bootstrap = inputs.get("bootstrapSelfManagedAddons")
        vpc = {
            "subnetIds": self._subnets(),
            "securityGroupIds": [group.id] if isinstance(group, pulumi.CustomResource) else None,
            "endpointPrivateAccess": inputs.get("endpointPrivateAccess"),
            "endpointPublicAccess": inputs.get("endpointPublicAccess"),
            "publicAccessCidrs": inputs.get("publicAccessCidrs"),
        }
        return Child(
            "aws:eks/cluster:Cluster",
            f"{name}-eksCluster",
            {
                "name": inputs.get("name"),
                "roleArn": role_arn,
                "kubernetesNetworkConfig": network if has_network else None,
                "bootstrapSelfManagedAddons": True if bootstrap is None else bootstrap,
                "vpcConfig": {key_: value for key_, value in vpc.items() if value is not None},
                "version": inputs.get("version"),
                "enabledClusterLogTypes": inputs.get("enabledClusterLogTypes"),
                "tags": merged_tags(f"{name}-eksCluster", inputs.get("clusterTags"), inputs.get("tags")),
                "encryptionConfig": encryption if key is not None else None,
                "accessConfig": {
                    "authenticationMode": inputs["authenticationMode"],
                    "bootstrapClusterCreatorAdminPermissions": True,
                },
                "upgradePolicy": inputs.get("upgradePolicy"),
                "deletionProtection": inputs.get("deletionProtection"),
            },
            pulumi.ResourceOptions(
                parent=self,
                depends_on=after,
                ignore_changes=["accessConfig.bootstrapClusterCreatorAdminPermissions", "bootstrapSelfManagedAddons"],
            ),
        )

    def _cluster_addons(self, cluster: Child) -> None:
        inputs, tags = self._inputs, self._inputs.get("tags")
        proxy: Mapping[str, Any] = inputs.get("kubeProxyAddonOptions") or {}
        if proxy.get("enabled", True):
            simple_addon(self._stem, "kube-proxy", cluster, proxy, tags, self)
        if not inputs.get("useDefaultVpcCni"):
            VpcCniAddon(f"{self._stem}-vpc-cni", inputs.get("vpcCniOptions") or {}, cluster, tags, self._child)
        dns: Mapping[str, Any] = inputs.get("corednsAddonOptions") or {}
        # Without a default node group there is nowhere for DNS to run, unless somebody asks for it.
        if dns.get("enabled") is True or dns.get("configurationValues"):
            simple_addon(self._stem, "coredns", cluster, dns, tags, self)

    def _access_entries(self, cluster: Child) -> None:
        entries: Mapping[str, Any] = self._inputs.get("accessEntries") or {}
        options = pulumi.ResourceOptions(parent=self, depends_on=[cluster])
        for key, entry in entries.items():
            where = {"clusterName": cluster.output("name"), "principalArn": entry["principalArn"]}
            made = Child(
                "aws:eks/accessEntry:AccessEntry",
                f"{self._stem}-{key}",
                {
                    **where,
                    "kubernetesGroups": entry.get("kubernetesGroups"),
                    "type": entry.get("type"),
                    "userName": entry.get("username"),
                    "tags": entry.get("tags"),
                },
                options,
            )
            policies: Mapping[str, Any] = entry.get("accessPolicies") or {}
            for policy_key, policy in policies.items():
                Child(
                    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
                    f"{self._stem}-{key}-{policy_key}",
                    {**where, "policyArn": policy["policyArn"], "accessScope": policy["accessScope"]},
                    pulumi.ResourceOptions(parent=self, depends_on=[made]),
                )

    def _kubeconfig(self, cluster: Child, *, profile: str | None) -> pulumi.Output[Mapping[str, Any]]:
        credentials: Any = self._inputs.get("providerCredentialOpts") or {}
        parts = {name: cluster.output(name) for name in ("name", "endpoint", "certificateAuthority", "arn")}
        return pulumi.Output.all(credentials=credentials, **parts).apply(
            lambda found: kubeconfig(
                found["name"],
                found["endpoint"],
                found["certificateAuthority"]["data"],
                found["arn"].split(":")[3],
                profile=found["credentials"].get("profileName") or profile,
                role=found["credentials"].get("roleArn"),
            )
        )

    def _kubernetes(self, config: pulumi.Output[Mapping[str, Any]]) -> pulumi.ProviderResource:
        inputs: dict[str, Any] = {"kubeconfig": config.apply(lambda found: json.dumps(found, separators=(",", ":")))}
        if self._inputs.get("enableConfigMapMutable") is not None:
            inputs["enableConfigMapMutable"] = self._inputs["enableConfigMapMutable"]
        options = pulumi.ResourceOptions(parent=self, version=sdk_version("kubernetes"))
        return pulumi.ProviderResource("kubernetes", f"{self._stem}-eks-k8s", inputs, options)

    def _outputs(
        self,
        cluster: Child,
        provider: pulumi.ProviderResource,
        config: pulumi.Output[Mapping[str, Any]],
        group: pulumi.Resource | None,
        node_group: Child | None,
        ingress: Child | None,
    ) -> dict[str, Any]:
        inputs = self._inputs
        made_by_eks = cluster.output("vpcConfig").apply(lambda found: found["clusterSecurityGroupId"])
        issuer = cluster.output("identities").apply(lambda found: found[0]["oidcs"][0]["issuer"])
        entries: Mapping[str, Any] = inputs.get("accessEntries") or {}
        core: dict[str, Any] = {
            "cluster": cluster,
            "vpcId": inputs.get("vpcId"),
            "subnetIds": self._subnets(),
            "publicSubnetIds": inputs.get("publicSubnetIds"),
            "privateSubnetIds": inputs.get("privateSubnetIds"),
            "clusterSecurityGroup": group,
            "endpoint": cluster.output("endpoint"),
            "kubeconfig": config,
            "provider": provider,
            "instanceRoles": [],
            "nodeGroupOptions": {"version": inputs.get("version")},
            "tags": inputs.get("tags"),
            "storageClasses": {},
            "accessEntries": list(entries.values()),
        }
        return {
            "kubeconfig": config,
            "kubeconfigJson": config.apply(lambda found: json.dumps(found, separators=(",", ":"))),
            "clusterSecurityGroup": group,
            "instanceRoles": [],
            "nodeSecurityGroup": node_group,
            "eksClusterIngressRule": ingress,
            "eksCluster": cluster,
            "core": {key: value for key, value in core.items() if value is not None},
            "clusterSecurityGroupId": group.id if isinstance(group, pulumi.CustomResource) else made_by_eks,
            "nodeSecurityGroupId": node_group.id if node_group is not None else made_by_eks,
            "clusterIngressRuleId": ingress.output("securityGroupRuleId") if ingress is not None else "",
            "defaultNodeGroupAsgName": "",
            "fargateProfileId": "",
            "fargateProfileStatus": "",
            "oidcProviderArn": "",
            "oidcProviderUrl": issuer,
            "oidcIssuer": issuer.apply(lambda found: found.replace("https://", "")),
            "autoModeNodeRoleName": "",
        }
