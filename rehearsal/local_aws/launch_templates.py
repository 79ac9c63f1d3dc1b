"""Launch templates: the combinations that EC2 refuses and moto takes."""

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response

from .instance_types import network_facts
from .store import Record

EFA_TYPES = ("efa", "efa-only")


class CheckedLaunchTemplates(EC2Response):
    """Check a launch template's data before moto keeps it."""

    def create_launch_template(self) -> ActionResult:
        """Make a launch template whose data could launch an instance."""
        refuse_bad_data(self._get_param("LaunchTemplateData", {}))
        return super().create_launch_template()

    def create_launch_template_version(self) -> ActionResult:
        """Make a version whose data could launch an instance."""
        refuse_bad_data(self._get_param("LaunchTemplateData", {}))
        return super().create_launch_template_version()

    def describe_launch_templates(self) -> ActionResult:
        """Describe launch templates with the tags that they have now; moto keeps those of their creation."""
        for template in self.ec2_backend.launch_templates.values():
            template.tags = template.get_tags()
        return super().describe_launch_templates()


def refuse_bad_data(data: Record) -> None:
    """Refuse interface combinations that no instance can be launched with.

    Raises:
        EC2ClientError: in EC2's words where public reports quote them (karpenter-provider-aws#5666).
    """
    interfaces: list[Record] = data.get("NetworkInterfaces") or []
    if interfaces and (data.get("SecurityGroupIds") or data.get("SecurityGroups")):
        raise EC2ClientError(
            "InvalidParameterCombination",
            "Network interfaces and an instance-level security groups may not be specified on the same request",
        )
    if len(interfaces) > 1 and any(interface.get("AssociatePublicIpAddress") for interface in interfaces):
        raise EC2ClientError(
            "InvalidParameterCombination",
            "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces",
        )
    places = [(int(nic.get("NetworkCardIndex") or 0), int(nic.get("DeviceIndex") or 0)) for nic in interfaces]
    if len(set(places)) != len(places):
        raise EC2ClientError(
            "InvalidParameterValue",
            "Each network interface requires a unique pair of network card index and device index",
        )
    _refuse_efa(data, [nic for nic in interfaces if nic.get("InterfaceType") in EFA_TYPES], places)


def _refuse_efa(data: Record, efa: list[Record], places: list[tuple[int, int]]) -> None:
    instance_type = data.get("InstanceType")
    facts = network_facts(instance_type) if instance_type else None
    if facts is None:
        return
    if efa and facts.efa_interfaces == 0:
        raise EC2ClientError("InvalidParameterCombination", f"EFA interfaces are not supported on {instance_type}")
    if len(efa) > facts.efa_interfaces:
        raise EC2ClientError(
            "InvalidParameterValue",
            f"{instance_type} supports at most {facts.efa_interfaces} EFA interfaces, {len(efa)} were specified",
        )
    if any(card >= facts.network_cards for card, _ in places):
        raise EC2ClientError(
            "InvalidParameterValue",
            f"{instance_type} has {facts.network_cards} network cards, indexes 0 to {facts.network_cards - 1}",
        )
