"""Route table, route, route table association and VPC endpoint."""

from __future__ import annotations

import hashlib
import json

from rehearsal.local_aws import catalog

from ..values import Properties, Props
from .kind import Call, Kind, from_tag_list, void
from .tagging import retag_ec2

_TARGETS = {
    "gatewayId": "GatewayId",
    "natGatewayId": "NatGatewayId",
    "networkInterfaceId": "NetworkInterfaceId",
    "transitGatewayId": "TransitGatewayId",
    "vpcEndpointId": "VpcEndpointId",
    "vpcPeeringConnectionId": "VpcPeeringConnectionId",
    "egressOnlyGatewayId": "EgressOnlyInternetGatewayId",
    "localGatewayId": "LocalGatewayId",
    "carrierGatewayId": "CarrierGatewayId",
}
_DESTINATIONS = {
    "destinationCidrBlock": "DestinationCidrBlock",
    "destinationIpv6CidrBlock": "DestinationIpv6CidrBlock",
    "destinationPrefixListId": "DestinationPrefixListId",
}


def _create_route_table(call: Call) -> str:
    made = call(
        "ec2", "CreateRouteTable", VpcId=call.inputs.text("vpcId"), TagSpecifications=call.ec2_tags("route-table")
    )
    return made.text("RouteTable.RouteTableId")


def _read_route_table(call: Call) -> Properties | None:
    table = call("ec2", "DescribeRouteTables", RouteTableIds=[call.id]).block("RouteTables.0")
    owner = table.text("OwnerId")
    return {
        "arn": f"arn:aws:ec2:{call.region}:{owner}:route-table/{call.id}",
        "ownerId": owner,
        "vpcId": table.text("VpcId"),
        "propagatingVgws": [],
        "routes": [],
        "tags": from_tag_list(table.blocks("Tags")),
    }


def _no_inline_routes(inputs: Props) -> list[tuple[str, str]]:
    if inputs.get("routes"):
        return [
            (
                "routes",
                "the stand-in keeps routes as resources of their own: use aws.ec2.Route, not routes of a RouteTable",
            )
        ]
    return []


ROUTE_TABLE = Kind(
    title="Route Table",
    create=_create_route_table,
    read=_read_route_table,
    update=retag_ec2,
    delete=lambda call: void(call("ec2", "DeleteRouteTable", RouteTableId=call.id)),
    replace_on=("vpcId",),
    rules=(_no_inline_routes,),
    gone=("InvalidRouteTableID.NotFound",),
)


def _route_arguments(inputs: Props) -> dict[str, object]:
    names = {**_DESTINATIONS, **_TARGETS}
    found: dict[str, object] = {api: inputs.text(name) for name, api in names.items() if inputs.text(name)}
    return {"RouteTableId": inputs.text("routeTableId"), **found}


def _destination(inputs: Props) -> dict[str, object]:
    return {api: inputs.text(name) for name, api in _DESTINATIONS.items() if inputs.text(name)}


def _create_route(call: Call) -> str:
    call("ec2", "CreateRoute", **_route_arguments(call.inputs))
    table = call.inputs.text("routeTableId")
    # A route has no id of its own: pulumi-aws makes one from the table and the destination.
    digest = hashlib.sha256(json.dumps(_destination(call.inputs)).encode()).hexdigest()
    return f"r-{table}{int(digest[:8], 16)}"


def _read_route(call: Call) -> Properties | None:
    inputs = Props({**call.state.values, **call.inputs.values})
    table = call("ec2", "DescribeRouteTables", RouteTableIds=[inputs.text("routeTableId")])
    wanted = _destination(inputs)
    for route in table.blocks("RouteTables.0.Routes"):
        if all(route.text(api) == value for api, value in wanted.items()):
            targets = {name: route.text(api) for name, api in _TARGETS.items() if route.text(api)}
            return {**targets, "origin": route.text("Origin", "CreateRoute"), "state": route.text("State", "active")}
    return None


def _one_target(inputs: Props) -> list[tuple[str, str]]:
    problems: list[tuple[str, str]] = []
    for what, names in (("destination", _DESTINATIONS), ("target", _TARGETS)):
        given = [name for name in names if inputs.get(name) is not None]
        if len(given) != 1:
            found = ", ".join(given) or "none"
            problems.append(
                (
                    given[0] if given else next(iter(names)),
                    f"exactly one {what} of {', '.join(names)} is required, found {found}",
                )
            )
    return problems


ROUTE = Kind(
    title="Route",
    create=_create_route,
    read=_read_route,
    update=lambda call: void(call("ec2", "ReplaceRoute", **_route_arguments(call.inputs))),
    delete=lambda call: void(
        call("ec2", "DeleteRoute", RouteTableId=call.state.text("routeTableId"), **_destination(call.state))
    ),
    replace_on=("routeTableId", *_DESTINATIONS),
    rules=(_one_target,),
    gone=("InvalidRouteTableID.NotFound", "InvalidRoute.NotFound"),
)


def _create_association(call: Call) -> str:
    made = call(
        "ec2",
        "AssociateRouteTable",
        RouteTableId=call.inputs.text("routeTableId"),
        SubnetId=call.inputs.text("subnetId") or None,
        GatewayId=call.inputs.text("gatewayId") or None,
    )
    return made.text("AssociationId")


def _read_association(call: Call) -> Properties | None:
    found = call(
        "ec2", "DescribeRouteTables", Filters=[{"Name": "association.route-table-association-id", "Values": [call.id]}]
    )
    for association in found.blocks("RouteTables.0.Associations"):
        if association.text("RouteTableAssociationId") == call.id:
            return {
                "routeTableId": association.text("RouteTableId"),
                **({"subnetId": association.text("SubnetId")} if association.text("SubnetId") else {}),
            }
    return None


def _subnet_or_gateway(inputs: Props) -> list[tuple[str, str]]:
    if (inputs.get("subnetId") is None) == (inputs.get("gatewayId") is None):
        return [("subnetId", "exactly one of subnetId, gatewayId is required")]
    return []


ROUTE_TABLE_ASSOCIATION = Kind(
    title="Route Table Association",
    create=_create_association,
    read=_read_association,
    delete=lambda call: void(call("ec2", "DisassociateRouteTable", AssociationId=call.id)),
    # The real one moves an association by ReplaceRouteTableAssociation, which gives it a new id: a replacement in effect.
    replace_on=("subnetId", "gatewayId", "routeTableId"),
    rules=(_subnet_or_gateway,),
    gone=("InvalidAssociationID.NotFound",),
)


def _create_endpoint(call: Call) -> str:
    inputs = call.inputs
    made = call(
        "ec2",
        "CreateVpcEndpoint",
        VpcId=inputs.text("vpcId"),
        ServiceName=inputs.text("serviceName"),
        VpcEndpointType=inputs.text("vpcEndpointType", "Gateway"),
        RouteTableIds=inputs.texts("routeTableIds") or None,
        SubnetIds=inputs.texts("subnetIds") or None,
        SecurityGroupIds=inputs.texts("securityGroupIds") or None,
        PrivateDnsEnabled=inputs.flag("privateDnsEnabled") if inputs.get("privateDnsEnabled") is not None else None,
        PolicyDocument=inputs.text("policy") or None,
        TagSpecifications=call.ec2_tags("vpc-endpoint"),
    )
    return made.text("VpcEndpoint.VpcEndpointId")


def _read_endpoint(call: Call) -> Properties | None:
    endpoint = call("ec2", "DescribeVpcEndpoints", VpcEndpointIds=[call.id]).block("VpcEndpoints.0")
    if not endpoint.text("VpcEndpointId") or endpoint.text("State").lower() in ("deleted", "deleting"):
        return None
    prefix_list = f"pl-{hashlib.sha256(endpoint.text('ServiceName').encode()).hexdigest()[:8]}"
    return {
        "arn": f"arn:aws:ec2:{call.region}:{endpoint.text('OwnerId', catalog.ACCOUNT)}:vpc-endpoint/{call.id}",
        "vpcId": endpoint.text("VpcId"),
        "serviceName": endpoint.text("ServiceName"),
        "state": "available",
        "vpcEndpointType": endpoint.text("VpcEndpointType"),
        "routeTableIds": [*endpoint.texts("RouteTableIds")],
        "subnetIds": [*endpoint.texts("SubnetIds")],
        "networkInterfaceIds": [*endpoint.texts("NetworkInterfaceIds")],
        "securityGroupIds": [*endpoint.texts("SecurityGroupIds")]
        or [group.text("GroupId") for group in endpoint.blocks("Groups")],
        "cidrBlocks": [],
        "prefixListId": prefix_list if endpoint.text("VpcEndpointType") == "Gateway" else "",
        "ownerId": endpoint.text("OwnerId", catalog.ACCOUNT),
        "requesterManaged": False,
        "serviceRegion": call.region,
        "ipAddressType": "ipv4",
        "tags": from_tag_list(endpoint.blocks("Tags")),
    }


def _update_endpoint(call: Call) -> None:
    arguments: dict[str, object] = {}
    for name, api in (
        ("routeTableIds", "RouteTableIds"),
        ("subnetIds", "SubnetIds"),
        ("securityGroupIds", "SecurityGroupIds"),
    ):
        before, after = set(call.old.texts(name)), set(call.inputs.texts(name))
        if after - before:
            arguments[f"Add{api}"] = sorted(after - before)
        if before - after:
            arguments[f"Remove{api}"] = sorted(before - after)
    if call.changed("policy"):
        arguments["PolicyDocument"] = call.inputs.text("policy")
    if arguments:
        call("ec2", "ModifyVpcEndpoint", VpcEndpointId=call.id, **arguments)
    retag_ec2(call)


def _endpoint_parts(inputs: Props) -> list[tuple[str, str]]:
    gateway = inputs.text("vpcEndpointType", "Gateway") == "Gateway"
    wrong = ("subnetIds", "securityGroupIds", "privateDnsEnabled") if gateway else ("routeTableIds",)
    sort = "Gateway" if gateway else "Interface"
    return [(name, f"{name} is not allowed for a {sort} endpoint") for name in wrong if inputs.get(name)]


VPC_ENDPOINT = Kind(
    title="EC2 VPC Endpoint",
    create=_create_endpoint,
    read=_read_endpoint,
    update=_update_endpoint,
    delete=lambda call: void(call("ec2", "DeleteVpcEndpoints", VpcEndpointIds=[call.id])),
    replace_on=(
        "serviceName",
        "vpcId",
        "vpcEndpointType",
        "serviceRegion",
        "resourceConfigurationArn",
        "serviceNetworkArn",
    ),
    sets=("routeTableIds", "subnetIds", "securityGroupIds"),
    defaults={"vpcEndpointType": "Gateway"},
    rules=(_endpoint_parts,),
    gone=("InvalidVpcEndpointId.NotFound", "InvalidRoute.NotFound"),
)
