"""From a node group's launch template to running instances, on moto's EC2."""

from dataclasses import dataclass
from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend
from moto.eks.exceptions import InvalidParameterException, InvalidRequestException

from .store import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What Auto Scaling needs to launch a node: the launch template's data, resolved."""

    instance_types: tuple[str, ...]
    template_type: str
    """The type in the launch template; empty when the node group gives it."""
    subnets: tuple[str, ...]
    zones: tuple[str, ...]
    """The subnets' zones, in their order."""
    security_groups: tuple[str, ...]
    placement_group: str
    reservation: str
    spot: bool
    tags: dict[str, str]


def launch(
    ec2: EC2Backend,
    *,
    cluster_group: str,
    subnets: list[str],
    template: Record | None,
    instance_types: list[str],
    tags: dict[str, str],
) -> Launch:
    """Resolve a node group's request.

    Raises:
        InvalidParameterException, InvalidRequestException: a subnet, template, version or security group does not exist, or the
            template holds what EKS forbids in one: https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
    """
    data: Record = _template_data(ec2, template) if template else {}
    interfaces: list[Record] = data.get("NetworkInterfaces") or []
    if any(interface.get("SubnetId") for interface in interfaces):
        raise InvalidRequestException(
            message="Launch template should not specify a subnet in a network interface; give the subnets in the node group"
        )
    if data.get("IamInstanceProfile"):
        raise InvalidRequestException(message="Launch template should not specify an IAM instance profile")
    groups: list[str] = []
    for interface in interfaces:
        groups.extend(interface.get("Groups") or [])
    groups = groups or data.get("SecurityGroupIds") or [cluster_group]
    for group in groups:
        if ec2.get_security_group_from_id(group) is None:
            raise InvalidParameterException(message=f"The security group '{group}' does not exist")
    found = [_subnet(ec2, subnet_id) for subnet_id in subnets]
    template_type = str(data.get("InstanceType") or "")
    specification: Record = data.get("CapacityReservationSpecification") or {}
    target: Record = specification.get("CapacityReservationTarget") or {}
    placement: Record = data.get("Placement") or {}
    market: Record = data.get("InstanceMarketOptions") or {}
    return Launch(
        instance_types=(template_type,) if template_type else tuple(instance_types or ["t3.medium"]),
        template_type=template_type,
        subnets=tuple(subnets),
        zones=tuple(subnet.availability_zone for subnet in found),
        security_groups=tuple(dict.fromkeys(groups)),
        placement_group=str(placement.get("GroupName") or ""),
        reservation=str(target.get("CapacityReservationId") or ""),
        spot=market.get("MarketType") == "spot",
        tags=tags,
    )


def fits(reservation: Record, launch: Launch) -> bool:
    """Tell whether a reservation's type, zone and placement group are those of the launch."""
    group_arn = str(reservation.get("PlacementGroupArn") or "")
    return (
        reservation["InstanceType"] == launch.instance_types[0]
        and reservation["AvailabilityZone"] in launch.zones
        and group_arn.rpartition("/")[2] == launch.placement_group
    )


def start(ec2: EC2Backend, launch: Launch, count: int) -> list[str]:
    """Launch `count` instances, spread over the subnets (all in one zone for a placement group), and give their ids."""
    ids: list[str] = []
    for index in range(count):
        subnet = launch.subnets[0 if launch.placement_group else index % len(launch.subnets)]
        reservation = ec2.run_instances(
            "ami-12c6146b",
            1,
            None,
            [],
            instance_type=launch.instance_types[0],
            is_instance_type_default=False,
            region_name=ec2.region_name,
            subnet_id=subnet,
            security_group_ids=list(launch.security_groups),
            associate_public_ip=False,
            lifecycle="spot" if launch.spot else None,
            tags={"instance": launch.tags},
        )
        instance = reservation.instances[0]
        instance.placement.group_name = launch.placement_group
        ids.append(instance.id)
    return ids


def terminate(ec2: EC2Backend, ids: list[str]) -> None:
    """End instances and free their network interfaces, as a terminated instance does."""
    if not ids:
        return
    ec2.terminate_instances(ids)
    for interface in list(ec2.enis.values()):
        if interface.instance is not None and interface.instance.id in ids:
            ec2.enis.pop(interface.id)


def _template_data(ec2: EC2Backend, template: Record) -> Record:
    try:
        by_id = template.get("id")
        found = ec2.get_launch_template(by_id) if by_id else ec2.get_launch_template_by_name(template["name"])
        return found.get_version(template.get("version") or "$Default").data
    except (EC2ClientError, IndexError) as error:
        raise InvalidParameterException(
            message=f"Launch template {template} does not exist or has no such version"
        ) from error


def _subnet(ec2: EC2Backend, subnet_id: str) -> Any:
    try:
        return ec2.get_subnet(subnet_id)
    except EC2ClientError as error:
        raise InvalidParameterException(message=f"The subnet ID '{subnet_id}' does not exist") from error
