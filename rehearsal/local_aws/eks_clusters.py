"""EKS clusters: what EKS does around a control plane and moto does not.

Added to moto's CreateCluster: the check of zones, the cluster security group, the control plane's network interfaces (so that
subnets in use can not be deleted), access configuration, the creator's access entry and the address of the local cluster.
"""

import secrets
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import InvalidSubnetIdError
from moto.eks.exceptions import InvalidParameterException, InvalidRequestException

from infra.zones import supports_control_plane

from . import catalog, kube
from .eks_access import EksAccess
from .eks_base import UnsupportedAvailabilityZoneError
from .store import Record

ADMIN_POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


class EksClusters(EksAccess):
    """Answer the cluster actions with what EKS adds to them."""

    def create_cluster(self) -> ActionResult:
        """Make a cluster in at least two zones, each one where EKS makes control planes."""
        payload = self.payload
        name = payload["name"]
        subnets = self._subnets(payload["resourcesVpcConfig"].get("subnetIds", []))
        self._check_zones(name, subnets)
        version = payload.get("version", catalog.DEFAULT_KUBERNETES_VERSION)
        if version not in catalog.KUBERNETES_VERSIONS:
            raise InvalidParameterException(clusterName=name, message=f"unsupported Kubernetes version {version}")
        result = super().create_cluster()
        cluster = self.cluster(name)
        cluster.version = version
        self._settings(cluster, payload)
        group = self._cluster_group(name, subnets[0].vpc_id)
        cluster.resources_vpc_config = {
            "endpointPublicAccess": True,
            "endpointPrivateAccess": False,
            "publicAccessCidrs": ["0.0.0.0/0"],
            "securityGroupIds": [],
            **payload["resourcesVpcConfig"],
            "clusterSecurityGroupId": group.id,
            "vpcId": subnets[0].vpc_id,
        }
        extra: list[str] = payload["resourcesVpcConfig"].get("securityGroupIds", [])
        self.store.cluster_interfaces[name] = [
            self.ec2.create_network_interface(
                subnet,
                [],
                group_ids=[group.id, *extra],
                description=f"Amazon EKS {name}",
                tags={"cluster.k8s.amazonaws.com/name": name},
            ).id
            for subnet in subnets
        ]
        if vars(cluster)["access_config"]["authenticationMode"] != "CONFIG_MAP":
            self._admit_creator(name, vars(cluster)["access_config"])
        return result

    def update_cluster_config(self) -> ActionResult:
        """Change endpoint access, subnets, log types, access mode, upgrade policy or deletion protection."""
        name, _ = self.path_parts
        payload, cluster = self.payload, self.cluster(name)
        vpc = payload.get("resourcesVpcConfig", {})
        if "subnetIds" in vpc:
            self._check_zones(name, self._subnets(vpc["subnetIds"]))
        cluster.resources_vpc_config |= vpc
        if "logging" in payload:
            cluster.logging = payload["logging"]
        if "authenticationMode" in payload.get("accessConfig", {}):
            vars(cluster)["access_config"]["authenticationMode"] = payload["accessConfig"]["authenticationMode"]
        for member, attribute in (("upgradePolicy", "upgrade_policy"), ("deletionProtection", "deletion_protection")):
            if member in payload:
                vars(cluster)[attribute] = payload[member]
        return self.updated("ConfigUpdate", payload)

    def update_cluster_version(self) -> ActionResult:
        """Raise the Kubernetes version by one minor version."""
        name, _ = self.path_parts
        cluster, version = self.cluster(name), self.payload["version"]
        if version not in catalog.KUBERNETES_VERSIONS:
            raise InvalidParameterException(clusterName=name, message=f"unsupported Kubernetes version {version}")
        step = int(version.split(".")[1]) - int(str(cluster.version).split(".")[1])
        if step != 1:
            raise InvalidParameterException(
                clusterName=name,
                message=f"Unsupported Kubernetes minor version update from {cluster.version} to {version}",
            )
        cluster.version = version
        return self.updated("VersionUpdate", {"Version": version})

    def associate_encryption_config(self) -> ActionResult:
        """Turn on envelope encryption of secrets; it can not be changed or turned off again."""
        name, _ = self.path_parts
        cluster = self.cluster(name)
        if cluster.encryption_config:
            raise InvalidRequestException(clusterName=name, message="Encryption is already enabled on this cluster.")
        cluster.encryption_config = self.payload["encryptionConfig"]
        return self.updated("AssociateEncryptionConfig", {"EncryptionConfig": cluster.encryption_config})

    def delete_cluster(self) -> ActionResult:
        """Delete a cluster without node groups, and what EKS made for it."""
        name, _ = self.path_parts
        if vars(self.cluster(name)).get("deletion_protection"):
            raise InvalidRequestException(
                clusterName=name,
                message=f"Cluster {name} has deletion protection enabled. Disable it to delete the cluster.",
            )
        result = super().delete_cluster()
        for interface in self.store.cluster_interfaces.pop(name, []):
            self.ec2.delete_network_interface(interface)
        self.ec2.delete_security_group(group_id=self.store.cluster_groups.pop(name))
        tables: tuple[dict[tuple[str, str], Any], ...] = (
            self.store.addons,
            self.store.access_entries,
            self.store.policies,
            self.store.pod_identities,
            self.store.instances,
        )
        for table in tables:
            for key in [key for key in table if key[0] == name]:
                del table[key]
        return result

    def _subnets(self, ids: list[str]) -> list[Any]:
        try:
            return [self.ec2.get_subnet(subnet_id) for subnet_id in ids]
        except InvalidSubnetIdError as error:
            raise InvalidParameterException(message=f"The subnet ID does not exist: {error}") from error

    def _check_zones(self, name: str, subnets: list[Any]) -> None:
        allowed = sorted(zone["ZoneName"] for zone in self._zones() if supports_control_plane(zone["ZoneId"]))
        for subnet in subnets:
            if subnet.availability_zone not in allowed:
                raise UnsupportedAvailabilityZoneError(
                    message=(
                        f"Cannot create cluster '{name}' because EKS does not support creating control plane instances in "
                        f"{subnet.availability_zone}, the targeted availability zone. Retry cluster creation using control plane "
                        f"subnets that span at least two of these availability zones: {', '.join(allowed)}. Note, post cluster "
                        "creation, you can run worker nodes in separate subnets/availability zones from control plane subnets "
                        "passed during cluster creation."
                    ),
                    clusterName=name,
                    validZones=allowed,
                )
        if len({subnet.availability_zone for subnet in subnets}) < 2:
            raise InvalidParameterException(
                clusterName=name, message="Subnets specified must be in at least two different AZs"
            )
        if len({subnet.vpc_id for subnet in subnets}) != 1:
            raise InvalidParameterException(clusterName=name, message="Subnets specified must be in the same VPC")

    def _zones(self) -> list[dict[str, str]]:
        return [{"ZoneName": zone.name, "ZoneId": zone.zone_id} for zone in self.ec2.describe_availability_zones()]

    def _settings(self, cluster: Any, payload: Record) -> None:
        access = payload.get("accessConfig", {})
        vars(cluster)["access_config"] = {
            "authenticationMode": access.get("authenticationMode", "CONFIG_MAP"),
            "bootstrapClusterCreatorAdminPermissions": access.get("bootstrapClusterCreatorAdminPermissions", True),
        }
        vars(cluster)["upgrade_policy"] = payload.get("upgradePolicy", {"supportType": "EXTENDED"})
        vars(cluster)["deletion_protection"] = payload.get("deletionProtection", False)
        cluster.identity = {
            "oidc": {"issuer": f"https://oidc.eks.{self.region}.amazonaws.com/id/{secrets.token_hex(16).upper()}"}
        }
        local = kube.local_cluster()
        if local is not None:
            cluster.endpoint = local.endpoint
            cluster.certificate_authority = {"data": local.authority}

    def _cluster_group(self, name: str, vpc_id: str) -> Any:
        group = self.ec2.create_security_group(
            f"eks-cluster-sg-{name}-{secrets.randbelow(10**9)}",
            "EKS created security group applied to ENI that is attached to EKS Control Plane master nodes, "
            "as well as any managed workloads.",
            vpc_id=vpc_id,
            tags={
                "Name": f"eks-cluster-sg-{name}",
                "aws:eks:cluster-name": name,
                f"kubernetes.io/cluster/{name}": "owned",
            },
        )
        self.ec2.authorize_security_group_ingress(group.id, "-1", "-1", "-1", [], source_groups=[{"GroupId": group.id}])
        self.store.cluster_groups[name] = group.id
        return group

    def _admit_creator(self, name: str, access: Record) -> None:
        if not access["bootstrapClusterCreatorAdminPermissions"]:
            return
        principal = f"arn:aws:iam::{self.current_account}:user/moto"
        entry = self.add_entry(name, {"principalArn": principal})
        self.store.policies[name, principal].append(
            {
                "policyArn": ADMIN_POLICY,
                "accessScope": {"type": "cluster", "namespaces": []},
                "associatedAt": entry["createdAt"],
                "modifiedAt": entry["createdAt"],
            }
        )
