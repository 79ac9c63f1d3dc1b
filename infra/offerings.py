"""Ask AWS, before anything is made, whether zones and instance types fit together."""

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from infra.zones import supports_control_plane
from settings.fields import Settings


def check_offerings(settings: Settings) -> None:
    """Refuse zones that do not exist, that EKS cannot use, or that do not offer the GPU type.

    Raises:
        pulumi.RunError: with every mismatch, one a line; nothing has been made yet.
    """
    found = aws.get_availability_zones(state="available")
    zone_ids = dict(zip(found.names, found.zone_ids, strict=True))
    offered = aws.ec2.get_instance_type_offerings(
        filters=[
            aws.ec2.GetInstanceTypeOfferingsFilterArgs(name="instance-type", values=[settings.gpu.gpu_instance_type])
        ],
        location_type="availability-zone",
    ).locations
    problems = [*zone_problems(settings, zone_ids), *offering_problems(settings, offered)]
    if problems:
        raise pulumi.RunError("\n".join(problems))


def zone_problems(settings: Settings, zone_ids: dict[str, str]) -> list[str]:
    """Return what is wrong with the zones, given the account's zone names and ids (`us-east-1e` is another zone in another account)."""
    usable = [name for name, zone_id in sorted(zone_ids.items()) if supports_control_plane(zone_id)]
    problems = [
        f"controlPlaneAvailabilityZones: found {zone}, which "
        + ("EKS gives no control plane" if zone in zone_ids else f"{settings.region} does not have")
        + f"; allowed: {', '.join(usable)}; choose two of them: GPU nodes may stand in another zone"
        for zone in settings.network.control_plane_availability_zones
        if zone not in usable
    ]
    gpu_zone = settings.gpu.gpu_availability_zone
    if gpu_zone not in zone_ids:
        problems.append(
            f"gpuAvailabilityZone: found {gpu_zone}, which {settings.region} does not have; "
            f"allowed: {', '.join(sorted(zone_ids))}; pulumi config set gpuAvailabilityZone ZONE"
        )
    return problems


def offering_problems(settings: Settings, zones: Sequence[str]) -> list[str]:
    """Return what is wrong with the GPU type, given the zones that offer it."""
    gpu = settings.gpu
    if gpu.gpu_availability_zone in zones:
        return []
    if not zones:
        return [
            f"gpuInstanceType: found {gpu.gpu_instance_type}, which no zone of {settings.region} offers; "
            "allowed: a type that the Region has; choose another type or another Region's stack"
        ]
    return [
        f"gpuAvailabilityZone: found {gpu.gpu_availability_zone}, which does not offer {gpu.gpu_instance_type}; "
        f"allowed: {', '.join(sorted(zones))}; pulumi config set gpuAvailabilityZone {sorted(zones)[0]}"
    ]
