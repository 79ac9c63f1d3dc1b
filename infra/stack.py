"""Wire the AWS half: network -> cluster -> nodes, storage and identity."""

from dataclasses import dataclass
from pathlib import Path

import pulumi

from infra.addons import addon
from infra.cluster import Cluster, ClusterArgs
from infra.code_archive import Code, CodeArchive, CodeArchiveArgs, read_code
from infra.gpu_nodes import GpuNodes, GpuNodesArgs
from infra.identity import WorkloadIdentity, WorkloadIdentityArgs
from infra.instances import instance
from infra.network import Network, NetworkArgs
from infra.offerings import check_offerings
from infra.placement import Placement, decide
from infra.shared_filesystem import SharedFilesystem, SharedFilesystemArgs
from infra.storage import Storage, StorageArgs
from infra.system_nodes import SystemNodes, SystemNodesArgs
from infra.tags import Tagger, tagger
from settings.fields import Settings

TRAIN = Path(__file__).parent.parent / "workloads" / "train"


@dataclass(frozen=True, slots=True, kw_only=True)
class Infrastructure:
    """What the workloads stand on. `efa_interfaces` is per node; `filesystem` is None without FSx."""

    cluster: Cluster
    system_nodes: SystemNodes
    gpu_nodes: GpuNodes
    placement: Placement
    efa_interfaces: int
    storage: Storage
    identity: WorkloadIdentity
    code: Code
    code_archive: CodeArchive
    filesystem: SharedFilesystem | None
    filesystem_driver: pulumi.Resource | None


def build_infrastructure(settings: Settings) -> Infrastructure:
    """Register every AWS resource of the stack.

    Raises:
        pulumi.RunError: AWS does not offer what the settings ask for; nothing has been registered.
    """
    check_offerings(settings)
    tag, placement, gpu = tagger(settings.stack), decide(settings.gpu), instance(settings.gpu.gpu_instance_type)
    efa = (settings.gpu.efa_interfaces or gpu.efa_interfaces) if settings.gpu.efa else 0
    network = Network(
        "network",
        NetworkArgs(
            region=settings.region,
            vpc_cidr=settings.network.vpc_cidr,
            control_plane_zones=settings.network.control_plane_availability_zones,
            gpu_zone=placement.zone,
            nat_per_zone=settings.network.nat_gateways == "perAvailabilityZone",
            interface_endpoints=settings.network.interface_endpoints,
            tag=tag,
        ),
    )
    cluster = Cluster(
        f"efa-{settings.stack.replace('.', '-')}",
        ClusterArgs(
            vpc_id=network.vpc_id,
            vpc_cidr=settings.network.vpc_cidr,
            subnet_ids=network.control_plane_subnet_ids,
            service_cidr=settings.network.service_cidr,
            public_cidrs=settings.network.api_public_cidrs,
            admins=settings.cluster.cluster_admins,
            log_types=settings.cluster.cluster_log_types,
            addon_versions=settings.cluster.addon_versions,
            tag=tag,
        ),
    )
    # A node without a way out cannot join.
    online = pulumi.ResourceOptions(depends_on=network.ready)
    system_nodes = SystemNodes(
        "system",
        SystemNodesArgs(
            cluster=cluster,
            subnet_ids=network.control_plane_subnet_ids,
            instance_type=settings.cluster.system_instance_type,
            count=settings.cluster.system_node_count,
            volume_gib=settings.cluster.system_volume_gib,
            addon_versions=settings.cluster.addon_versions,
            tag=tag,
        ),
        online,
    )
    gpu_nodes = GpuNodes(
        "gpu",
        GpuNodesArgs(
            cluster=cluster,
            vpc_id=network.vpc_id,
            subnet_id=network.gpu_subnet_id,
            instance=gpu,
            count=settings.gpu.gpu_node_count,
            efa_interfaces=efa,
            placement=placement,
            ami_release=settings.gpu.gpu_ami_release,
            volume_gib=settings.gpu.gpu_volume_gib,
            tag=tag,
        ),
        online,
    )
    storage = Storage(
        "artifacts",
        StorageArgs(
            keep=settings.storage.keep_artifacts, retention_days=settings.storage.artifact_retention_days, tag=tag
        ),
    )
    code = read_code(TRAIN)
    filesystem = _filesystem(settings, network, cluster, tag)
    return Infrastructure(
        cluster=cluster,
        system_nodes=system_nodes,
        gpu_nodes=gpu_nodes,
        placement=placement,
        efa_interfaces=efa,
        storage=storage,
        identity=WorkloadIdentity(
            "ray",
            WorkloadIdentityArgs(
                cluster=cluster,
                namespace=settings.ray.namespace,
                bucket_arn=storage.bucket_arn,
                key_arn=storage.key_arn,
                external_path=settings.job.storage_path,
                tag=tag,
            ),
        ),
        code=code,
        code_archive=CodeArchive("code", CodeArchiveArgs(code=code, storage=storage, tag=tag)),
        filesystem=filesystem,
        filesystem_driver=_filesystem_driver(settings, cluster, system_nodes, tag) if filesystem else None,
    )


def _filesystem(settings: Settings, network: Network, cluster: Cluster, tag: Tagger) -> SharedFilesystem | None:
    if not settings.storage.fsx_capacity_gib:
        return None
    return SharedFilesystem(
        "fsx",
        SharedFilesystemArgs(
            capacity_gib=settings.storage.fsx_capacity_gib,
            vpc_id=network.vpc_id,
            subnet_id=network.gpu_subnet_id,
            node_security_group_id=cluster.security_group_id,
            tag=tag,
        ),
    )


def _filesystem_driver(settings: Settings, cluster: Cluster, system_nodes: SystemNodes, tag: Tagger) -> pulumi.Resource:
    """Install the CSI driver that mounts the file system; a standing one needs no AWS permission."""
    name = "aws-fsx-csi-driver"
    return addon(
        f"fsx-{name}",
        name,
        cluster_name=cluster.name,
        version=settings.cluster.addon_versions.get(name),
        tag=tag,
        opts=pulumi.ResourceOptions(depends_on=system_nodes.ready, deleted_with=cluster.control_plane),
    )
