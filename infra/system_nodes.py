"""The CPU nodes: KubeRay operator, Ray head, cluster DNS and monitoring."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

import versions
from infra import labels
from infra.addons import addon
from infra.cluster import Cluster
from infra.nodes import METADATA, node_role, root_volume, tag_specifications
from infra.tags import Tagger


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemNodesArgs:
    """How many CPU nodes of which type."""

    cluster: Cluster
    subnet_ids: pulumi.Input[list[str]]
    instance_type: str
    count: int
    volume_gib: int
    addon_versions: Mapping[str, str]
    tag: Tagger


class SystemNodes(pulumi.ComponentResource):
    """A managed group of CPU nodes, and the add-ons that need a node to run on."""

    group: aws.eks.NodeGroup
    ready: list[pulumi.Resource]
    """Node group and add-ons: DNS answers and pods run once these stand."""

    def __init__(self, name: str, args: SystemNodesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("efa-ray-train:infra:SystemNodes", name, None, opts)
        child, tags = pulumi.ResourceOptions(parent=self), args.tag(name)
        template = aws.ec2.LaunchTemplate(
            name,
            instance_type=args.instance_type,
            metadata_options=METADATA,
            block_device_mappings=[root_volume(args.volume_gib, args.cluster.key_arn)],
            tag_specifications=tag_specifications(tags),
            update_default_version=True,
            tags=tags,
            opts=child,
        )
        role = node_role(name, tag=args.tag, opts=child)
        self.group = aws.eks.NodeGroup(
            name,
            cluster_name=args.cluster.name,
            node_role_arn=role.arn,
            subnet_ids=args.subnet_ids,
            version=versions.KUBERNETES,
            ami_type="AL2023_x86_64_STANDARD",
            launch_template=aws.eks.NodeGroupLaunchTemplateArgs(
                id=template.id, version=template.latest_version.apply(str)
            ),
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(
                desired_size=args.count, min_size=1, max_size=args.count + 1
            ),
            update_config=aws.eks.NodeGroupUpdateConfigArgs(max_unavailable=1),
            node_repair_config=aws.eks.NodeGroupNodeRepairConfigArgs(enabled=True),
            labels=labels.system_node(),
            tags=tags,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[*args.cluster.networking, *role.permissions],
                # One node cannot meet coredns' disruption budget: EKS waits out the drain before it ends the node.
                custom_timeouts=pulumi.CustomTimeouts(create="30m", update="60m", delete="30m"),
            ),
        )
        after = pulumi.ResourceOptions(parent=self, depends_on=[self.group], deleted_with=args.cluster.control_plane)
        # Node repair acts on a GPU fault only when the monitoring agent reports it.
        self.ready = [
            self.group,
            *(
                addon(
                    f"{name}-{add_on}",
                    add_on,
                    cluster_name=args.cluster.name,
                    version=args.addon_versions.get(add_on),
                    tag=args.tag,
                    opts=after,
                )
                for add_on in ("coredns", "eks-node-monitoring-agent")
            ),
        ]
        self.register_outputs({"nodeGroup": self.group.node_group_name})
