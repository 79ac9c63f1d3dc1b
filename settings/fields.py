"""The configuration of one stack, typed: one field a config key, grouped by what it configures.

Key `gpuNodeCount` in `Pulumi.<stack>.yaml` is field `gpu_node_count` here. `Pulumi.yaml` repeats type, default and description for the
engine; a test keeps the two equal. A field's `title` says in words what its pattern allows, and its first example stands in the
message about a missing value.
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

import versions

Text = Annotated[str, Field(min_length=1)]
ZoneName = Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-\d[a-h]$")]


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkSettings:
    """The VPC and who reaches the Kubernetes API."""

    control_plane_availability_zones: Annotated[
        tuple[ZoneName, ...],
        Field(
            title="a list of zones, as us-east-2a",
            examples=["us-east-2a"],
            description="Two or more zones for the EKS control plane and the CPU nodes; independent of the GPU zone.",
        ),
    ]
    vpc_cidr: Annotated[str, Field(description="IPv4 range of the VPC, /16 to /20.")] = "10.0.0.0/16"
    service_cidr: Annotated[
        str, Field(description="IPv4 range of Kubernetes Services, /12 to /24, apart from the VPC.")
    ] = "172.20.0.0/16"
    nat_gateways: Annotated[
        Literal["single", "perAvailabilityZone"],
        Field(description="single: one NAT gateway; perAvailabilityZone: one for each control-plane zone."),
    ] = "single"
    interface_endpoints: Annotated[
        bool,
        Field(
            description="Reach ECR, STS, EC2, CloudWatch Logs and EKS Auth by VPC endpoints instead of the NAT gateway."
        ),
    ] = False
    api_access: Annotated[
        Literal["publicCidrs", "insideVpc"],
        Field(
            examples=["insideVpc"],
            description="publicCidrs: the API answers the ranges in apiPublicCidrs; insideVpc: it answers the VPC alone.",
        ),
    ]
    api_public_cidrs: Annotated[
        tuple[str, ...], Field(description="IPv4 ranges that may reach the Kubernetes API; for apiAccess publicCidrs.")
    ] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterSettings:
    """The EKS control plane, its add-ons and the CPU nodes."""

    cluster_admins: Annotated[
        tuple[str, ...],
        Field(description="IAM role or user ARNs that administer the cluster, beside the identity that creates it."),
    ] = ()
    cluster_log_types: Annotated[
        tuple[Literal["api", "audit", "authenticator", "controllerManager", "scheduler"], ...],
        Field(description="Control-plane logs sent to CloudWatch Logs."),
    ] = ("api", "audit", "authenticator")
    addon_versions: Annotated[
        dict[str, str],
        Field(description="EKS add-on name to version; an add-on not named here gets the default that EKS publishes."),
    ] = field(default_factory=dict[str, str])
    system_instance_type: Annotated[
        Text, Field(description="CPU node for the KubeRay operator, the Ray head and monitoring.")
    ] = "m7i.2xlarge"
    system_node_count: Annotated[int, Field(ge=1, le=10, description="CPU nodes.")] = 1
    system_volume_gib: Annotated[int, Field(ge=50, le=1000, description="Root volume of a CPU node, GiB.")] = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuSettings:
    """The GPU nodes: where they stand, how they are bought and how they are wired."""

    gpu_availability_zone: Annotated[
        ZoneName,
        Field(
            title="one zone, as us-east-2b: EFA does not leave a zone",
            examples=["us-east-2b"],
            description="The one zone of GPU nodes, placement group and workers; never chosen by the program.",
        ),
    ]
    gpu_instance_type: Annotated[Text, Field(description="Instance type of a GPU node.")] = "g6.12xlarge"
    gpu_node_count: Annotated[int, Field(ge=1, le=1000, description="GPU nodes; one Ray worker runs on each.")] = 2
    efa: Annotated[
        bool, Field(description="Attach EFA interfaces, install the EFA device plugin and train over them.")
    ] = True
    efa_interfaces: Annotated[
        int, Field(ge=0, description="EFA interfaces of a node; 0 attaches every one that the instance type has.")
    ] = 0
    purchase: Annotated[
        Literal["onDemand", "spot", "reservation", "capacityBlock"],
        Field(
            description="How GPU nodes are bought: On-Demand, Spot, an On-Demand Capacity Reservation or a Capacity Block."
        ),
    ] = "onDemand"
    capacity_reservation_id: Annotated[
        str,
        Field(
            pattern=r"^(cr-[0-9a-f]{8,17})?$",
            title="cr- and 8 to 17 hex digits",
            description="The reservation, for purchase reservation or capacityBlock.",
        ),
    ] = ""
    placement_group: Annotated[
        str,
        Field(
            pattern=r"^(create|none|existing:\S(.{0,254}))$",
            title="create, none or existing:NAME",
            description="create: a cluster placement group; existing:NAME: one that stands; none: no group, with a reason.",
        ),
    ] = "create"
    placement_group_reason: Annotated[
        str,
        Field(
            pattern=r"^[\w .:/=+@-]{0,200}$",
            title="up to 200 letters, digits, spaces and _ . : / = + @ -",
            description="Why EFA nodes go without a placement group; recorded as a tag and read by the policies.",
        ),
    ] = ""
    gpu_ami_release: Annotated[
        str, Field(description="Release of the EKS NVIDIA AMI; empty takes the newest at creation.")
    ] = ""
    gpu_volume_gib: Annotated[
        int, Field(ge=100, le=4000, description="Root volume of a GPU node, GiB; images and scratch lie on local NVMe.")
    ] = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class RaySettings:
    """The Ray cluster: image and sizes of head and workers."""

    namespace: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
            title="a Kubernetes name: a-z, 0-9 and -, up to 63",
            description="Kubernetes namespace of cluster and job.",
        ),
    ] = "ray-train"
    image: Annotated[
        Text,
        Field(description="Image of head and workers; pin it as REPOSITORY@sha256:DIGEST outside rehearsal and dev."),
    ] = versions.IMAGE
    head_cpu: Annotated[int, Field(ge=1, description="CPUs of the Ray head.")] = 4
    head_memory_gib: Annotated[int, Field(ge=4, description="Memory of the Ray head, GiB.")] = 16
    worker_cpu: Annotated[int, Field(ge=1, description="CPUs of a Ray worker.")] = 40
    worker_memory_gib: Annotated[int, Field(ge=4, description="Memory of a Ray worker, GiB.")] = 160
    worker_gpus: Annotated[
        int,
        Field(ge=0, description="GPUs of a Ray worker, as request, limit and num-gpus; 0 takes every GPU of the node."),
    ] = 0
    worker_ray_start_params: Annotated[
        dict[str, str],
        Field(description="Further `ray start` parameters of a worker; num-gpus, if given, must equal its GPUs."),
    ] = field(default_factory=dict[str, str])
    worker_environment: Annotated[dict[str, str], Field(description="Further environment variables of a worker.")] = (
        field(default_factory=dict[str, str])
    )
    cluster_timeout_minutes: Annotated[
        int,
        Field(ge=1, le=600, description="A Ray cluster that is not whole after this time fails the update."),
    ] = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSettings:
    """The training job and what stays of it."""

    model: Annotated[Text, Field(description="Model to fine-tune, as the Hugging Face Hub names it.")] = (
        "Qwen/Qwen2.5-1.5B"
    )
    training_arguments: Annotated[
        tuple[str, ...], Field(description="Further arguments of the training program, one an item.")
    ] = ()
    storage_path: Annotated[
        str,
        Field(
            description="Where checkpoints and records go: empty for the stack's bucket, s3://BUCKET/PREFIX or /fsx/PATH."
        ),
    ] = ""
    run_id: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9-]{0,20}$",
            title="up to 20 of a-z, 0-9 and -",
            description="Change it to run the same job once more.",
        ),
    ] = ""
    await_job: Annotated[
        Literal["finished", "running"],
        Field(description="finished: `pulumi up` ends with the job; running: it ends when the job runs."),
    ] = "finished"
    job_timeout_minutes: Annotated[int, Field(ge=1, le=10080, description="The job is ended after this time.")] = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class StorageSettings:
    """The artifact bucket and the optional shared file system."""

    keep_artifacts: Annotated[
        bool, Field(description="Leave the artifact bucket and its key in the account when the stack is destroyed.")
    ] = True
    artifact_retention_days: Annotated[
        int, Field(ge=1, le=3650, description="Days after which superseded versions of artifacts are removed.")
    ] = 30
    fsx_capacity_gib: Annotated[
        int,
        Field(
            ge=0,
            description="FSx for Lustre in the GPU zone, GiB (1200 or a multiple of 2400), mounted at /fsx; 0 for none.",
        ),
    ] = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ChartSettings:
    """Where the Helm charts come from."""

    chart_source: Annotated[
        Text,
        Field(description="upstream: the charts' own repositories; a directory or oci:// prefix that holds all three."),
    ] = "upstream"
    efa_plugin_image: Annotated[
        str, Field(description="Repository of the EFA device plugin's image; empty takes the chart's own.")
    ] = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """One stack's configuration, complete and consistent; made by `settings.parse` alone."""

    stack: str
    region: str
    network: NetworkSettings
    cluster: ClusterSettings
    gpu: GpuSettings
    ray: RaySettings
    job: JobSettings
    storage: StorageSettings
    charts: ChartSettings
