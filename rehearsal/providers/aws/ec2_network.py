"""VPC, subnet, internet gateway, Elastic IP and NAT gateway."""

from __future__ import annotations

import ipaddress

from rehearsal.local_aws import catalog

from ..values import Properties, Props
from .kind import Call, Kind, Rule, from_tag_list, void
from .tagging import retag_ec2


def _cidr_rule(prop: str, longest: int) -> Rule:
    def rule(inputs: Props) -> list[tuple[str, str]]:
        text = inputs.text(prop)
        if not text:
            return []
        try:
            network = ipaddress.ip_network(text)
        except ValueError as error:
            return [(prop, f"{prop} must be a network in CIDR form, such as 10.0.0.0/16, found {text!r} ({error})")]
        if not 16 <= network.prefixlen <= longest:
            return [(prop, f"{prop} must have a prefix of /16 to /{longest}, found {text}")]
        return []

    return rule


def _create_vpc(call: Call) -> str:
    vpc = call(
        "ec2",
        "CreateVpc",
        CidrBlock=call.inputs.text("cidrBlock"),
        InstanceTenancy=call.inputs.text("instanceTenancy", "default"),
        TagSpecifications=call.ec2_tags("vpc"),
    )
    vpc_id = vpc.text("Vpc.VpcId")
    _set_dns(call, vpc_id)
    return vpc_id


def _set_dns(call: Call, vpc_id: str) -> None:
    call(
        "ec2",
        "ModifyVpcAttribute",
        VpcId=vpc_id,
        EnableDnsSupport={"Value": call.inputs.flag("enableDnsSupport", default=True)},
    )
    call(
        "ec2", "ModifyVpcAttribute", VpcId=vpc_id, EnableDnsHostnames={"Value": call.inputs.flag("enableDnsHostnames")}
    )


def _read_vpc(call: Call) -> Properties | None:
    vpc = call("ec2", "DescribeVpcs", VpcIds=[call.id]).block("Vpcs.0")
    in_vpc = [{"Name": "vpc-id", "Values": [call.id]}]
    tables = call("ec2", "DescribeRouteTables", Filters=[*in_vpc, {"Name": "association.main", "Values": ["true"]}])
    groups = call("ec2", "DescribeSecurityGroups", Filters=[*in_vpc, {"Name": "group-name", "Values": ["default"]}])
    main = tables.text("RouteTables.0.RouteTableId")
    owner = vpc.text("OwnerId")
    return {
        "arn": f"arn:aws:ec2:{call.region}:{owner}:vpc/{call.id}",
        "cidrBlock": vpc.text("CidrBlock"),
        "instanceTenancy": vpc.text("InstanceTenancy"),
        "enableDnsSupport": _attribute(call, "EnableDnsSupport"),
        "enableDnsHostnames": _attribute(call, "EnableDnsHostnames"),
        "enableNetworkAddressUsageMetrics": False,
        "dhcpOptionsId": vpc.text("DhcpOptionsId"),
        "mainRouteTableId": main,
        "defaultRouteTableId": main,
        "defaultSecurityGroupId": groups.text("SecurityGroups.0.GroupId"),
        "ownerId": owner,
        "tags": from_tag_list(vpc.blocks("Tags")),
    }


def _attribute(call: Call, name: str) -> bool:
    found = call("ec2", "DescribeVpcAttribute", VpcId=call.id, Attribute=name[:1].lower() + name[1:])
    return found.flag(f"{name}.Value")


def _update_vpc(call: Call) -> None:
    if call.changed("enableDnsSupport", "enableDnsHostnames"):
        _set_dns(call, call.id)
    retag_ec2(call)


VPC = Kind(
    title="EC2 VPC",
    create=_create_vpc,
    read=_read_vpc,
    update=_update_vpc,
    delete=lambda call: void(call("ec2", "DeleteVpc", VpcId=call.id)),
    replace_on=("cidrBlock", "ipv4IpamPoolId", "ipv4NetmaskLength"),
    defaults={"enableDnsSupport": True, "instanceTenancy": "default"},
    rules=(_cidr_rule("cidrBlock", 28),),
    gone=("InvalidVpcID.NotFound",),
)


def _create_subnet(call: Call) -> str:
    inputs = call.inputs
    subnet = call(
        "ec2",
        "CreateSubnet",
        VpcId=inputs.text("vpcId"),
        CidrBlock=inputs.text("cidrBlock"),
        AvailabilityZone=inputs.text("availabilityZone") or None,
        AvailabilityZoneId=inputs.text("availabilityZoneId") or None,
        TagSpecifications=call.ec2_tags("subnet"),
    )
    subnet_id = subnet.text("Subnet.SubnetId")
    if inputs.flag("mapPublicIpOnLaunch"):
        call("ec2", "ModifySubnetAttribute", SubnetId=subnet_id, MapPublicIpOnLaunch={"Value": True})
    return subnet_id


def _read_subnet(call: Call) -> Properties | None:
    subnet = call("ec2", "DescribeSubnets", SubnetIds=[call.id]).block("Subnets.0")
    return {
        "arn": subnet.text("SubnetArn"),
        "vpcId": subnet.text("VpcId"),
        "cidrBlock": subnet.text("CidrBlock"),
        "availabilityZone": subnet.text("AvailabilityZone"),
        "availabilityZoneId": subnet.text("AvailabilityZoneId"),
        "mapPublicIpOnLaunch": subnet.flag("MapPublicIpOnLaunch"),
        "ownerId": subnet.text("OwnerId"),
        "privateDnsHostnameTypeOnLaunch": subnet.text("PrivateDnsNameOptionsOnLaunch.HostnameType", "ip-name"),
        "tags": from_tag_list(subnet.blocks("Tags")),
    }


def _update_subnet(call: Call) -> None:
    if call.changed("mapPublicIpOnLaunch"):
        value = {"Value": call.inputs.flag("mapPublicIpOnLaunch")}
        call("ec2", "ModifySubnetAttribute", SubnetId=call.id, MapPublicIpOnLaunch=value)
    retag_ec2(call)


SUBNET = Kind(
    title="EC2 Subnet",
    create=_create_subnet,
    read=_read_subnet,
    update=_update_subnet,
    delete=lambda call: void(call("ec2", "DeleteSubnet", SubnetId=call.id)),
    replace_on=(
        "availabilityZone",
        "availabilityZoneId",
        "cidrBlock",
        "vpcId",
        "ipv6Native",
        "outpostArn",
        "ipv4IpamPoolId",
    ),
    defaults={"mapPublicIpOnLaunch": False, "assignIpv6AddressOnCreation": False},
    rules=(_cidr_rule("cidrBlock", 28),),
    gone=("InvalidSubnetID.NotFound",),
)


def _create_internet_gateway(call: Call) -> str:
    made = call("ec2", "CreateInternetGateway", TagSpecifications=call.ec2_tags("internet-gateway"))
    gateway_id = made.text("InternetGateway.InternetGatewayId")
    if call.inputs.text("vpcId"):
        call("ec2", "AttachInternetGateway", InternetGatewayId=gateway_id, VpcId=call.inputs.text("vpcId"))
    return gateway_id


def _read_internet_gateway(call: Call) -> Properties | None:
    gateway = call("ec2", "DescribeInternetGateways", InternetGatewayIds=[call.id]).block("InternetGateways.0")
    owner = gateway.text("OwnerId")
    return {
        "arn": f"arn:aws:ec2:{call.region}:{owner}:internet-gateway/{call.id}",
        "ownerId": owner,
        "vpcId": gateway.text("Attachments.0.VpcId"),
        "tags": from_tag_list(gateway.blocks("Tags")),
    }


def _update_internet_gateway(call: Call) -> None:
    if call.changed("vpcId"):
        if call.old.text("vpcId"):
            call("ec2", "DetachInternetGateway", InternetGatewayId=call.id, VpcId=call.old.text("vpcId"))
        if call.inputs.text("vpcId"):
            call("ec2", "AttachInternetGateway", InternetGatewayId=call.id, VpcId=call.inputs.text("vpcId"))
    retag_ec2(call)


def _delete_internet_gateway(call: Call) -> None:
    if call.state.text("vpcId"):
        call("ec2", "DetachInternetGateway", InternetGatewayId=call.id, VpcId=call.state.text("vpcId"))
    call("ec2", "DeleteInternetGateway", InternetGatewayId=call.id)


INTERNET_GATEWAY = Kind(
    title="EC2 Internet Gateway",
    create=_create_internet_gateway,
    read=_read_internet_gateway,
    update=_update_internet_gateway,
    delete=_delete_internet_gateway,
    gone=("InvalidInternetGatewayID.NotFound",),
)


def _create_eip(call: Call) -> str:
    made = call(
        "ec2",
        "AllocateAddress",
        Domain=call.inputs.text("domain", "vpc"),
        TagSpecifications=call.ec2_tags("elastic-ip"),
    )
    return made.text("AllocationId")


def _read_eip(call: Call) -> Properties | None:
    address = call("ec2", "DescribeAddresses", AllocationIds=[call.id]).block("Addresses.0")
    public = address.text("PublicIp")
    return {
        "arn": f"arn:aws:ec2:{call.region}:{call.state.text('ownerId', catalog.ACCOUNT)}:elastic-ip/{call.id}",
        "allocationId": call.id,
        "associationId": address.text("AssociationId"),
        "domain": address.text("Domain"),
        "publicIp": public,
        "publicDns": f"ec2-{public.replace('.', '-')}.{call.region}.compute.amazonaws.com",
        "networkInterface": address.text("NetworkInterfaceId"),
        "instance": address.text("InstanceId"),
        "networkBorderGroup": call.region,
        "publicIpv4Pool": "amazon",
        "tags": from_tag_list(address.blocks("Tags")),
    }


EIP = Kind(
    title="EC2 EIP",
    create=_create_eip,
    read=_read_eip,
    update=retag_ec2,
    delete=lambda call: void(call("ec2", "ReleaseAddress", AllocationId=call.id)),
    replace_on=("address", "customerOwnedIpv4Pool", "domain", "networkBorderGroup", "publicIpv4Pool", "ipamPoolId"),
    gone=("InvalidAllocationID.NotFound",),
)


def _create_nat_gateway(call: Call) -> str:
    made = call(
        "ec2",
        "CreateNatGateway",
        SubnetId=call.inputs.text("subnetId"),
        AllocationId=call.inputs.text("allocationId") or None,
        ConnectivityType=call.inputs.text("connectivityType", "public"),
        TagSpecifications=call.ec2_tags("natgateway"),
    )
    return made.text("NatGateway.NatGatewayId")


def _read_nat_gateway(call: Call) -> Properties | None:
    gateway = call("ec2", "DescribeNatGateways", NatGatewayIds=[call.id]).block("NatGateways.0")
    if gateway.text("State") in ("", "deleted", "deleting"):
        return None
    address = gateway.block("NatGatewayAddresses.0")
    return {
        "subnetId": gateway.text("SubnetId"),
        "allocationId": address.text("AllocationId"),
        "associationId": address.text("AssociationId"),
        "networkInterfaceId": address.text("NetworkInterfaceId"),
        "privateIp": address.text("PrivateIp"),
        "publicIp": address.text("PublicIp"),
        "connectivityType": gateway.text("ConnectivityType", "public"),
        "vpcId": gateway.text("VpcId"),
        "tags": from_tag_list(gateway.blocks("Tags")),
    }


def _nat_needs_address(inputs: Props) -> list[tuple[str, str]]:
    public = inputs.text("connectivityType", "public") == "public"
    if public and inputs.get("allocationId") is None and inputs.text("availabilityMode", "zonal") == "zonal":
        return [
            ("allocationId", "allocationId is required for a public NAT gateway; give it the allocation id of an Eip")
        ]
    if not public and inputs.get("allocationId") is not None:
        return [("allocationId", 'allocationId is not allowed with connectivityType "private"')]
    return []


NAT_GATEWAY = Kind(
    title="EC2 NAT Gateway",
    create=_create_nat_gateway,
    read=_read_nat_gateway,
    update=retag_ec2,
    delete=lambda call: void(call("ec2", "DeleteNatGateway", NatGatewayId=call.id)),
    replace_on=("allocationId", "connectivityType", "privateIp", "subnetId", "vpcId", "availabilityMode"),
    defaults={"connectivityType": "public"},
    rules=(_nat_needs_address,),
    gone=("NatGatewayNotFound",),
)
