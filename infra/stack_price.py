"""What the stack of these settings costs an hour while it stands."""

from infra.network import ENDPOINT_SERVICES
from infra.prices import HourlyPrice, StackSize, price
from settings.fields import Settings


def stack_price(settings: Settings) -> HourlyPrice:
    """Return the hourly price of the parts that `infra` makes from `settings`."""
    zones = len(settings.network.control_plane_availability_zones)
    return price(
        StackSize(
            region=settings.region,
            system_instance_type=settings.cluster.system_instance_type,
            system_node_count=settings.cluster.system_node_count,
            gpu_instance_type=settings.gpu.gpu_instance_type,
            gpu_node_count=settings.gpu.gpu_node_count,
            purchase=settings.gpu.purchase,
            nat_gateways=zones if settings.network.nat_gateways == "perAvailabilityZone" else 1,
            interface_endpoints=len(ENDPOINT_SERVICES) * zones if settings.network.interface_endpoints else 0,
            system_volume_gib=settings.cluster.system_volume_gib,
            gpu_volume_gib=settings.gpu.gpu_volume_gib,
            kms_keys=2,
            fsx_capacity_gib=settings.storage.fsx_capacity_gib,
        )
    )
