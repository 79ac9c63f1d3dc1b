"""What a stack may do, but should know: said once before anything is made."""

from collections.abc import Iterator
from ipaddress import IPv4Network

from infra.instances import instance
from settings.fields import Settings
from settings.rules.network import is_documentation


def warnings(settings: Settings) -> Iterator[str]:
    """Yield one line for each choice that works but has a price."""
    for cidr in settings.network.api_public_cidrs:
        if is_documentation(IPv4Network(cidr)):
            yield f"apiPublicCidrs: {cidr} is a range for documentation, so nobody reaches the API; set it to your own before `pulumi up`"
    gpu, environment = settings.gpu, settings.ray.worker_environment
    type_ = instance(gpu.gpu_instance_type)
    if "FI_EFA_USE_DEVICE_RDMA" in environment and not type_.rdma_read:
        yield (
            f"workerEnvironment: FI_EFA_USE_DEVICE_RDMA is set, but {type_.name} has an EFA device without RDMA read; "
            "aws-ofi-nccl may abort the job with 'EFA device has no rdma-read capability'; remove it"
        )
    if gpu.efa and gpu.placement_group == "none" and gpu.purchase != "capacityBlock":
        yield (
            "placementGroup: none leaves EFA nodes anywhere in the zone; "
            f"a TCP flow between them falls from 10 to 5 Gb/s; the reason recorded: {gpu.placement_group_reason}"
        )
