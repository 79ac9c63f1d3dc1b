"""Network: nodes in private subnets without public addresses, and an API endpoint that is not open to all."""

from collections.abc import Iterator
from typing import Final

from policies import tokens
from policies.graph import Graph, Resource, known_ids
from policies.node_groups import node_groups
from policies.rules import Finding, ResourceRule, StackRule, not_checked, not_visible, violation
from policies.values import UNKNOWN, Value, at, entries, text, truth

_EVERYONE: Final = ("0.0.0.0/0", "::/0")
_PRIVATE_WHY: Final = "nodes with several interfaces get no public address and never join, and others stand open"


def check_public_address(template: Resource) -> Iterator[Finding]:
    """Check that no interface of a launch template asks for a public address."""
    if template.type != tokens.LAUNCH_TEMPLATE:
        return
    for index, interface in enumerate(entries(at(template.props, "networkInterfaces"))):
        asked = truth(at(interface, "associatePublicIpAddress"))
        where = f"networkInterfaces[{index}].associatePublicIpAddress"
        if asked is UNKNOWN:
            yield not_checked(template, where, then="it is not true")
        elif asked:
            yield violation(
                template,
                f"{where} true in launch template {template.name}",
                allowed='"false", or unset where there are several interfaces',
                why=_PRIVATE_WHY,
                fix='set associatePublicIpAddress to "false"; nodes reach out through the NAT gateway (natGateways)',
            )


def check_private_subnets(graph: Graph) -> Iterator[Finding]:
    """Check that node groups use private subnets only: no address at launch, no route to an Internet gateway."""
    seen: set[str] = set()
    for group in node_groups(graph):
        if group.subnet_gap is not None:
            yield not_checked(group.resource, group.subnet_gap, then="the subnets are private")
        elif not group.subnets:
            ids = ", ".join(known_ids(group.resource, "subnetIds"))
            yield not_visible(group.resource, f"subnet {ids}", check="aws ec2 describe-route-tables (no route to igw-)")
        for subnet in group.subnets:
            if subnet.urn not in seen:
                seen.add(subnet.urn)
                yield from _check_subnet(graph, subnet, group.resource)


def _check_subnet(graph: Graph, subnet: Resource, group: Resource) -> Iterator[Finding]:
    public = truth(at(subnet.props, "mapPublicIpOnLaunch"))
    if public is UNKNOWN:
        yield not_checked(subnet, "mapPublicIpOnLaunch", then="it is not true for a subnet of nodes")
    elif public:
        yield violation(
            subnet,
            f"mapPublicIpOnLaunch true on subnet {subnet.name} of node group {group.name}",
            allowed="false",
            why=_PRIVATE_WHY,
            fix="set mapPublicIpOnLaunch to false, or give the node group a private subnet",
        )
    for association in graph.of(tokens.ROUTE_TABLE_ASSOCIATION):
        if subnet in graph.sources(association, "subnetId", [tokens.SUBNET]):
            for table in graph.sources(association, "routeTableId", [tokens.ROUTE_TABLE]):
                if _reaches_internet(graph, table):
                    yield violation(
                        subnet,
                        f"a route to an Internet gateway in route table {table.name} of subnet {subnet.name}, "
                        f"used by node group {group.name}",
                        allowed="a route through a NAT gateway, or none",
                        why=_PRIVATE_WHY,
                        fix="associate the subnet with a private route table (natGateways), or use a private subnet",
                    )


def _reaches_internet(graph: Graph, table: Resource) -> bool:
    if graph.sources(table, "routes", [tokens.INTERNET_GATEWAY]):
        return True
    routes = [
        route for route in graph.of(tokens.ROUTE) if table in graph.sources(route, "routeTableId", [tokens.ROUTE_TABLE])
    ]
    gateways = [at(route, "gatewayId") for route in entries(at(table.props, "routes"))]
    gateways += [at(route.props, "gatewayId") for route in routes]
    return any(_is_internet(gateway) for gateway in gateways) or any(
        graph.sources(route, "gatewayId", [tokens.INTERNET_GATEWAY]) for route in routes
    )


def _is_internet(gateway: Value) -> bool:
    return (text(gateway) or "").startswith("igw-")


def check_api_endpoint(cluster: Resource) -> Iterator[Finding]:
    """Check that the Kubernetes API is not open to the whole Internet."""
    if cluster.type != tokens.CLUSTER:
        return
    settings = at(cluster.props, "vpcConfig")
    public = at(settings, "endpointPublicAccess")
    ranges = entries(at(settings, "publicAccessCidrs"))
    if public is UNKNOWN or (UNKNOWN in ranges and truth(public) is not False):
        yield not_checked(
            cluster, "vpcConfig.endpointPublicAccess or publicAccessCidrs", then="the API is not open to all"
        )
    elif public is not None and not truth(public):
        return
    elif not ranges or any(cidr in _EVERYONE for cidr in ranges):
        found = ", ".join(str(cidr) for cidr in ranges) or "no publicAccessCidrs, which EKS reads as 0.0.0.0/0"
        yield violation(
            cluster,
            f"a public API endpoint of cluster {cluster.name} open to {found}",
            allowed="named CIDRs, or no public endpoint",
            why="whoever reaches the API can try stolen credentials against it",
            fix="set apiAccess to insideVpc, or apiPublicCidrs to the ranges that you work from",
        )


RULES = (
    ResourceRule(
        id="no-public-address",
        what="No network interface of a node asks for a public address.",
        why="Nodes are reached by nobody from outside; instances with several interfaces cannot have one at all.",
        fix='`associatePublicIpAddress: "false"`.',
        check=check_public_address,
    ),
    StackRule(
        id="private-node-subnets",
        what="Node groups use private subnets: no address at launch, no route to an Internet gateway.",
        why="Nodes with several interfaces never join from a public subnet; others stand open.",
        fix="A private subnet; the way out is a NAT gateway (`natGateways`).",
        check=check_private_subnets,
    ),
    ResourceRule(
        id="api-endpoint",
        what="The Kubernetes API is not open to 0.0.0.0/0.",
        why="Stolen credentials are of use only where the API can be reached.",
        fix="`apiAccess: insideVpc`, or named ranges in `apiPublicCidrs`.",
        check=check_api_endpoint,
    ),
)
