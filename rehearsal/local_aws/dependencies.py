"""What EC2 refuses to delete while something uses it, where moto deletes it."""

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response


class GuardedDeletes(EC2Response):
    """Guard the deletes of what has dependents."""

    def delete_subnet(self) -> ActionResult:
        """Delete a subnet without network interfaces."""
        subnet_id = self._get_param("SubnetId")
        if any(interface.subnet.id == subnet_id for interface in self.ec2_backend.enis.values()):
            raise _in_use(f"The subnet '{subnet_id}' has dependencies and cannot be deleted.")
        for table in self.ec2_backend.route_tables.values():
            for association in table.associations:
                if association.get("SubnetId") == subnet_id:
                    # A subnet takes its route table association along.
                    self.ec2_backend.disassociate_route_table(association["RouteTableAssociationId"])
        return super().delete_subnet()

    def delete_security_group(self) -> ActionResult:
        """Delete a security group that no interface has and no rule names."""
        group_id = self._get_param("GroupId")
        held = any(group_id in [group.id for group in eni.group_set] for eni in self.ec2_backend.enis.values())
        named = any(
            rule.source_group is not None and rule.source_group.get("GroupId") == group_id
            for groups in self.ec2_backend.groups.values()
            for group in groups.values()
            if group.id != group_id
            for rule in [*group.ingress_rules, *group.egress_rules]
        )
        if group_id and (held or named):
            raise _in_use(f"resource {group_id} has a dependent object")
        return super().delete_security_group()

    def detach_internet_gateway(self) -> ActionResult:
        """Detach a gateway from a VPC in which no public address is mapped."""
        vpc_id = self._get_param("VpcId")
        if any(
            gateway.vpc_id == vpc_id and gateway.state == "available"
            for gateway in self.ec2_backend.nat_gateways.values()
        ):
            raise _in_use(
                f"Network {vpc_id} has some mapped public address(es). Please unmap those public address(es) before detaching "
                "the gateway."
            )
        return super().detach_internet_gateway()

    def release_address(self) -> ActionResult:
        """Release an address that no NAT gateway uses."""
        allocation = self._get_param("AllocationId")
        for gateway in self.ec2_backend.nat_gateways.values():
            if gateway.state == "available" and allocation in [
                entry.get("allocationId") for entry in gateway.address_set
            ]:
                raise EC2ClientError(
                    "InvalidIPAddress.InUse", f"The address with allocation id [{allocation}] is in use."
                )
        return super().release_address()

    def create_nat_gateway(self) -> ActionResult:
        """Make a NAT gateway; a public one needs an address that is free, in a subnet that exists."""
        self.ec2_backend.get_subnet(self._get_param("SubnetId"))
        allocation = self._get_param("AllocationId")
        if self._get_param("ConnectivityType", "public") == "public":
            if not allocation:
                raise EC2ClientError("MissingParameter", "The request must contain the parameter AllocationId")
            self.ec2_backend.describe_addresses([allocation], None, None)
            for gateway in self.ec2_backend.nat_gateways.values():
                if gateway.state == "available" and allocation in [
                    entry.get("allocationId") for entry in gateway.address_set
                ]:
                    raise EC2ClientError(
                        "Resource.AlreadyAssociated", f"Elastic IP address [{allocation}] is already associated"
                    )
        return super().create_nat_gateway()

    def delete_nat_gateway(self) -> ActionResult:
        """Delete a NAT gateway and its network interface."""
        gateway_id = self._get_param("NatGatewayId")
        gateway = self.ec2_backend.nat_gateways.get(gateway_id)
        if gateway is None:
            raise EC2ClientError("NatGatewayNotFound", f"The Nat Gateway {gateway_id} was not found")
        result = super().delete_nat_gateway()
        for entry in gateway.address_set:
            self.ec2_backend.enis.pop(entry["networkInterfaceId"], None)
        return result


def _in_use(message: str) -> EC2ClientError:
    return EC2ClientError("DependencyViolation", message)
