"""EKS managed node groups: what EKS and Auto Scaling do with a launch template and moto does not.

A group's instances are moto instances in its subnets, with the template's security groups and placement group, so that what is in
use can not be deleted. A group whose instances can not be launched ends in CREATE_FAILED with Auto Scaling's words, as with EKS.
"""

from typing import Any

from moto.core.responses import ActionResult
from moto.eks.exceptions import InvalidParameterException, InvalidRequestException, ResourceInUseException
from moto.eks.models import Nodegroup

from . import faults, launching
from .eks_access import EksAccess
from .launching import Launch
from .store import Record, ec2_store

NOT_ACTIVE = "Nodegroup cannot be updated as it is currently not in Active State"


class EksNodegroups(EksAccess):
    """Answer the node group actions with what EKS adds to them."""

    def create_nodegroup(self) -> ActionResult:
        """Make a node group and its instances, or one in CREATE_FAILED that says why there are none."""
        name, _ = self.path_parts
        payload, cluster = self.payload, self.cluster(name)
        launch = self._launch(name, payload["nodegroupName"], payload)
        self._check_new(payload, launch)
        self.params = payload
        super().create_nodegroup()
        group = self._group(name, payload["nodegroupName"])
        vars(group)["remote_access"] = payload.get("remoteAccess")
        group.version = payload.get("version", str(cluster.version))
        group.release_version = payload.get("releaseVersion", f"{group.version}.0-20261102")
        group.update_config = payload.get("updateConfig", {"maxUnavailable": 1})
        group.node_repair_config = payload.get("nodeRepairConfig")
        group.instance_types = payload.get("instanceTypes") or ([] if launch.template_type else ["t3.medium"])
        vars(group)["resources"] = {"autoScalingGroups": [{"name": scaling_group(group)}]}
        if not payload.get("launchTemplate"):
            group.disk_size = payload.get("diskSize", 20)
        if vars(cluster).get("access_config", {}).get("authenticationMode") != "CONFIG_MAP" and (
            (name, payload["nodeRole"]) not in self.store.access_entries
        ):
            # EKS admits the nodes of a managed group by itself.
            self.add_entry(
                name, {"principalArn": payload["nodeRole"], "type": "EC2_LINUX", "kubernetesGroups": ["system:nodes"]}
            )
        self._launch_instances(group, launch, group.scaling_config["desiredSize"])
        return ActionResult({"nodegroup": group})

    def update_nodegroup_config(self) -> ActionResult:
        """Change size, labels, taints, update or repair settings of an active group."""
        group, payload = self._updatable(), self.payload
        self._refuse_split_placement(group)
        config = payload.get("updateConfig", {})
        for key in ("maxUnavailable", "maxUnavailablePercentage"):
            if key in config and not 1 <= config[key] <= 100:
                raise InvalidParameterException(message=f"{key} must be between 1 and 100, found {config[key]}")
        super().update_nodegroup_config()
        wanted = group.scaling_config["desiredSize"]
        running = self.store.instances.setdefault((group.cluster_name, group.nodegroup_name), [])
        if len(running) > wanted:
            launching.terminate(self.ec2, running[wanted:])
            del running[wanted:]
        errors: list[Record] = []
        if len(running) < wanted:
            errors = self._launch_instances(group, self._launch_of(group), wanted - len(running), creating=False)
        return self.updated("ConfigUpdate", payload, errors=errors)

    def update_nodegroup_version(self) -> ActionResult:
        """Roll an active group to another template version, release or Kubernetes version."""
        group, payload = self._updatable(), self.payload
        self._refuse_split_placement(group)
        template = payload.get("launchTemplate")
        if template:
            merged = {**(group.launch_template or {}), **template}
            self._launch(
                group.cluster_name, group.nodegroup_name, {**self._as_payload(group), "launchTemplate": merged}
            )
            group.launch_template = merged
        group.version = payload.get("version", group.version)
        group.release_version = payload.get("releaseVersion", group.release_version)
        key = group.cluster_name, group.nodegroup_name
        old = list(self.store.instances.get(key, []))
        # New nodes come before the old ones go: the group needs room for both, which is where a full zone refuses it.
        errors = self._launch_instances(group, self._launch_of(group), len(old), creating=False)
        if not errors:
            launching.terminate(self.ec2, old)
            self.store.instances[key] = self.store.instances[key][len(old) :]
        return self.updated("VersionUpdate", payload, errors=errors)

    def list_nodegroups(self) -> ActionResult:
        """List the groups of a cluster that is there."""
        self.cluster(self.path_parts[0])
        return super().list_nodegroups()

    def delete_nodegroup(self) -> ActionResult:
        """Delete a group and end its instances."""
        name, group_name = self.path_parts
        self._group(name, group_name)
        launching.terminate(self.ec2, self.store.instances.pop((name, group_name), []))
        return super().delete_nodegroup()

    def _updatable(self) -> Nodegroup:
        name, rest = self.path_parts
        group_name = rest.split("/")[0]
        group = self._group(name, group_name)
        if group.status != "ACTIVE":
            raise ResourceInUseException(clusterName=name, nodegroupName=group_name, message=NOT_ACTIVE)
        return group

    def _group(self, cluster: str, name: str) -> Nodegroup:
        return self.eks_backend.describe_nodegroup(cluster_name=cluster, nodegroup_name=name)

    def _launch(self, cluster: str, group: str, payload: Record) -> Launch:
        return launching.launch(
            self.ec2,
            cluster_group=self.store.cluster_groups[cluster],
            subnets=payload["subnets"],
            template=payload.get("launchTemplate"),
            instance_types=payload.get("instanceTypes") or [],
            tags={
                "eks:cluster-name": cluster,
                "eks:nodegroup-name": group,
                f"kubernetes.io/cluster/{cluster}": "owned",
            },
        )

    def _launch_of(self, group: Nodegroup) -> Launch:
        return self._launch(group.cluster_name, group.nodegroup_name, self._as_payload(group))

    @staticmethod
    def _as_payload(group: Nodegroup) -> Record:
        return {
            "subnets": group.subnets,
            "launchTemplate": group.launch_template,
            "instanceTypes": group.instance_types,
        }

    def _check_new(self, payload: Record, launch: Launch) -> None:
        sizes = payload.get("scalingConfig", {})
        if sizes and not sizes["minSize"] <= sizes["desiredSize"] <= sizes["maxSize"]:
            raise InvalidParameterException(
                message=f"desired capacity {sizes['desiredSize']} must lie within minimum {sizes['minSize']} and maximum {sizes['maxSize']}"
            )
        if launch.template_type and payload.get("instanceTypes"):
            raise InvalidParameterException(
                message="Instance types must be specified either in the launch template or in the node group, not in both"
            )
        config = payload.get("updateConfig", {})
        for key in ("maxUnavailable", "maxUnavailablePercentage"):
            if key in config and not 1 <= config[key] <= 100:
                raise InvalidParameterException(message=f"{key} must be between 1 and 100, found {config[key]}")

    def _refuse_split_placement(self, group: Nodegroup) -> None:
        """Refuse to update a group that reaches out of its placement group's zone: terraform-aws-eks#3044."""
        launch = self._launch_of(group)
        zone = ec2_store(self.current_account, self.region).placement_zones.get(launch.placement_group)
        if zone is not None and any(other != zone for other in launch.zones):
            raise InvalidRequestException(
                message=(
                    f"Instances in the Placement Group must be launched in the {zone} Availability Zone. "
                    f"Specify the {zone} Availability Zone and try again."
                )
            )

    def _launch_instances(self, group: Nodegroup, launch: Launch, count: int, *, creating: bool = True) -> list[Record]:
        if count == 0:
            return []
        problem = self._problem(launch)
        if problem is None:
            started = launching.start(self.ec2, launch, count)
            store = ec2_store(self.current_account, self.region)
            if store.placement_groups.get(launch.placement_group, {}).get("Strategy") == "cluster":
                store.placement_zones.setdefault(launch.placement_group, launch.zones[0])
            self.store.instances.setdefault((group.cluster_name, group.nodegroup_name), []).extend(started)
            return []
        code, text = problem
        resource = scaling_group(group)
        if creating:
            group.status = "CREATE_FAILED"
            group.health = {"issues": [{"code": code, "message": text, "resourceIds": [resource]}]}
        return [{"errorCode": code, "errorMessage": text, "resourceIds": [resource]}]

    def _problem(self, launch: Launch) -> tuple[str, str] | None:
        """Say why the instances can not be launched: health code and text, or None."""
        store, instance_type = ec2_store(self.current_account, self.region), launch.instance_types[0]
        if launch.placement_group and launch.placement_group not in store.placement_groups:
            return _launch_failure(
                "InvalidPlacementGroup.Unknown", f"The Placement Group '{launch.placement_group}' is unknown."
            )
        pinned = store.placement_zones.get(launch.placement_group)
        if pinned is not None and pinned not in launch.zones:
            return _launch_failure(
                "InvalidParameterValue",
                f"Instances in the Placement Group must be launched in the {pinned} Availability Zone. "
                f"Specify the {pinned} Availability Zone and try again.",
            )
        zone = faults.unoffered(self.region, instance_type, list(launch.zones[:1]))
        if zone is not None:
            return _launch_failure("Unsupported", faults.unsupported(self.region, instance_type, zone))
        reservation: Any = store.reservations.get(launch.reservation)
        if launch.reservation and (reservation is None or reservation["State"] != "active"):
            return _launch_failure(
                "InvalidCapacityReservationId.NotFound",
                f"The capacity reservation '{launch.reservation}' does not exist.",
            )
        if launch.reservation and not launching.fits(reservation, launch):
            # A reservation made outside a placement group has no room inside one: terraform-aws-eks#3730.
            ice = faults.Fault(at="nodegroup", code="InsufficientInstanceCapacity")
            return _launch_failure(ice.code, faults.message(ice, self.region, instance_type, list(launch.zones)))
        fault = faults.take("nodegroup", instance_type=instance_type, zone=launch.zones[0])
        if fault is None:
            return None
        text = faults.message(fault, self.region, instance_type, list(launch.zones))
        return (fault.code, text) if fault.code == "NodeCreationFailure" else _launch_failure(fault.code, text)


def scaling_group(group: Nodegroup) -> str:
    """Name the Auto Scaling group behind a node group, as EKS does."""
    return f"eks-{group.nodegroup_name}-{group.uuid}"


def _launch_failure(code: str, text: str) -> tuple[str, str]:
    """Word a launch failure as Auto Scaling does in a node group's health."""
    return (
        "AsgInstanceLaunchFailures",
        f"Could not launch On-Demand Instances. {code} - {text} Launching EC2 instance failed.",
    )
