"""The GPU nodes: one subnet, one placement group, every EFA interface wired, and a group that updates in place."""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

import versions
from infra import labels
from infra.cluster import Cluster
from infra.efa_security_group import efa_security_group
from infra.instances import InstanceType, interfaces
from infra.nodes import METADATA, local_storage_user_data, node_role, root_volume, tag_specifications
from infra.placement import Placement
from infra.tags import Tagger


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNodesArgs:
    """How many GPU nodes of which type, where and how bought."""

    cluster: Cluster
    vpc_id: pulumi.Input[str]
    subnet_id: pulumi.Input[str]
    instance: InstanceType
    count: int
    efa_interfaces: int
    """EFA interfaces of each node; 0 turns EFA off."""
    placement: Placement
    ami_release: str
    volume_gib: int
    tag: Tagger


class GpuNodes(pulumi.ComponentResource):
    """A managed group of GPU nodes in one zone, in a cluster placement group unless the placement says otherwise."""

    group: aws.eks.NodeGroup

    def __init__(self, name: str, args: GpuNodesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("efa-ray-train:infra:GpuNodes", name, None, opts)
        self._name, self._args = name, args
        self._tags = args.tag(
            name,
            gpu_az=args.placement.zone,
            efa=str(args.efa_interfaces > 0).lower(),
            placement_group=args.placement.tag,
            placement_reason=args.placement.reason,
        )
        template = self._launch_template()
        role = node_role(name, tag=args.tag, opts=pulumi.ResourceOptions(parent=self))
        self.group = aws.eks.NodeGroup(
            name,
            cluster_name=args.cluster.name,
            node_role_arn=role.arn,
            # One subnet, so one zone: a group of several creates fine, and every later update fails in EC2.
            subnet_ids=[args.subnet_id],
            version=versions.KUBERNETES,
            ami_type="AL2023_x86_64_NVIDIA",
            release_version=args.ami_release or None,
            capacity_type=args.placement.capacity_type,
            launch_template=aws.eks.NodeGroupLaunchTemplateArgs(
                id=template.id, version=template.latest_version.apply(str)
            ),
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(desired_size=args.count, min_size=0, max_size=args.count),
            # Spare GPU nodes seldom exist: end a node before its successor starts, instead of asking for one more first.
            update_config=aws.eks.NodeGroupUpdateConfigArgs(max_unavailable=1, update_strategy="MINIMAL"),
            node_repair_config=aws.eks.NodeGroupNodeRepairConfigArgs(enabled=True),
            labels=labels.gpu_node(efa=args.efa_interfaces > 0),
            taints=[
                aws.eks.NodeGroupTaintArgs(key=labels.GPU_TAINT, value=labels.GPU_TAINT_VALUE, effect="NO_SCHEDULE")
            ],
            tags=self._tags,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[*args.cluster.networking, *role.permissions],
                # Two groups at once would need twice the capacity.
                delete_before_replace=True,
                custom_timeouts=pulumi.CustomTimeouts(create="30m", update="60m", delete="30m"),
            ),
        )
        self.register_outputs({"nodeGroup": self.group.node_group_name})

    def _launch_template(self) -> aws.ec2.LaunchTemplate:
        args, child = self._args, pulumi.ResourceOptions(parent=self)
        reserved = args.placement.reservation_id
        return aws.ec2.LaunchTemplate(
            self._name,
            instance_type=args.instance.name,
            network_interfaces=self._interfaces(),
            placement=self._placement_group(),
            capacity_reservation_specification=aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(
                capacity_reservation_target=aws.ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(
                    capacity_reservation_id=reserved
                )
            )
            if reserved
            else None,
            instance_market_options=aws.ec2.LaunchTemplateInstanceMarketOptionsArgs(market_type="capacity-block")
            if args.placement.capacity_type == "CAPACITY_BLOCK"
            else None,
            metadata_options=METADATA,
            block_device_mappings=[root_volume(args.volume_gib, args.cluster.key_arn)],
            user_data=local_storage_user_data() if args.instance.nvme_disks else None,
            tag_specifications=tag_specifications(self._tags),
            update_default_version=True,
            tags=self._tags,
            opts=child,
        )

    def _interfaces(self) -> list[aws.ec2.LaunchTemplateNetworkInterfaceArgs]:
        args = self._args
        # An interface that names groups gets none from EKS, so the cluster's own group stands beside EFA's.
        groups: list[pulumi.Input[str]] = [args.cluster.security_group_id]
        if args.efa_interfaces:
            tags = args.tag("efa", role="efa", gpu_az=args.placement.zone)
            groups.append(
                efa_security_group(
                    f"{self._name}-efa", vpc_id=args.vpc_id, tags=tags, opts=pulumi.ResourceOptions(parent=self)
                ).id
            )
        layout = interfaces(args.instance, args.efa_interfaces)
        return [
            aws.ec2.LaunchTemplateNetworkInterfaceArgs(
                network_card_index=card.network_card_index,
                device_index=card.device_index,
                interface_type=card.interface_type,
                # EC2 refuses the parameter itself, true or false, once there are several interfaces.
                associate_public_ip_address="false" if len(layout) == 1 else None,
                delete_on_termination="true",
                security_groups=groups,
            )
            for card in layout
        ]

    def _placement_group(self) -> aws.ec2.LaunchTemplatePlacementArgs | None:
        args = self._args
        if args.placement.group == "none":
            return None
        if args.placement.group == "existing":
            return aws.ec2.LaunchTemplatePlacementArgs(group_name=args.placement.group_name)
        group = aws.ec2.PlacementGroup(
            self._name, strategy="cluster", tags=self._tags, opts=pulumi.ResourceOptions(parent=self)
        )
        return aws.ec2.LaunchTemplatePlacementArgs(group_name=group.name)
