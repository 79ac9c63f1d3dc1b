import pytest

from policies import tokens
from policies.values import UNKNOWN, Value
from tests.policies.good_stack import Said, Stack, found, good_stack, said

WHY = "why: nodes with several interfaces get no public address and never join, and others stand open"
ROUTE = (
    "found a route to an Internet gateway in route table table-gpu of subnet subnet-gpu, used by node group gpu; "
    f"allowed: a route through a NAT gateway, or none; {WHY}; "
    "fix: associate the subnet with a private route table (natGateways), or use a private subnet"
)


@pytest.mark.parametrize("value", ["true", True])
def test_r13_a_public_address_of_an_interface_is_refused(value: Value) -> None:
    stack = good_stack()
    stack.edit("template", "networkInterfaces.0.associatePublicIpAddress", value)
    assert said(stack) == found(
        "no-public-address",
        "template",
        "found networkInterfaces[0].associatePublicIpAddress true in launch template template; "
        f'allowed: "false", or unset where there are several interfaces; {WHY}; '
        'fix: set associatePublicIpAddress to "false"; nodes reach out through the NAT gateway (natGateways)',
    )


def test_an_unknown_public_address_is_not_checked() -> None:
    stack = good_stack()
    stack.edit("template", "networkInterfaces.0.associatePublicIpAddress", UNKNOWN)
    assert said(stack) == [
        Said(
            "no-public-address",
            "not-checked",
            "template",
            "not checked yet: networkInterfaces[0].associatePublicIpAddress is known only at up; "
            "then checked: it is not true",
        )
    ]


def test_r13_a_subnet_that_gives_public_addresses_is_refused() -> None:
    stack = good_stack()
    stack.edit("subnet-gpu", "mapPublicIpOnLaunch", True)
    assert said(stack) == found(
        "private-node-subnets",
        "subnet-gpu",
        f"found mapPublicIpOnLaunch true on subnet subnet-gpu of node group gpu; allowed: false; {WHY}; "
        "fix: set mapPublicIpOnLaunch to false, or give the node group a private subnet",
    )


def test_an_unknown_subnet_setting_is_not_checked() -> None:
    stack = good_stack()
    stack.edit("subnet-gpu", "mapPublicIpOnLaunch", UNKNOWN)
    assert [(s.rule, s.level, s.resource) for s in said(stack)] == [
        ("private-node-subnets", "not-checked", "subnet-gpu")
    ]


@pytest.mark.parametrize("at_preview", [True, False])
def test_r13_a_route_to_the_internet_gateway_is_refused(at_preview: bool) -> None:
    stack = good_stack(at_preview=at_preview)
    stack.edit("route-gpu", "natGatewayId", None)
    stack.edit("route-gpu", "gatewayId", stack.id("gateway"))
    stack.sources("route-gpu", gatewayId=["gateway"], natGatewayId=[])
    assert said(stack) == found("private-node-subnets", "subnet-gpu", ROUTE)


def inline(stack: Stack) -> None:
    stack.edit("table-gpu", "routes", [{"cidrBlock": "0.0.0.0/0", "gatewayId": stack.id("gateway")}])
    stack.sources("table-gpu", routes=["gateway"])


def by_id(stack: Stack) -> None:
    stack.edit("route-gpu", "gatewayId", "igw-0abc")


def inline_by_id(stack: Stack) -> None:
    stack.edit("table-gpu", "routes", [{"cidrBlock": "0.0.0.0/0", "gatewayId": "igw-0abc"}])


@pytest.mark.parametrize("route", [inline, by_id, inline_by_id])
def test_a_route_is_seen_however_it_is_written(route: object) -> None:
    stack = good_stack()
    assert callable(route)
    route(stack)
    assert said(stack) == found("private-node-subnets", "subnet-gpu", ROUTE)


def test_a_public_subnet_of_the_nat_gateway_is_fine() -> None:
    stack = good_stack()
    assert stack.resources["subnet-public"].props["mapPublicIpOnLaunch"] is True
    assert said(stack) == []


def test_cpu_nodes_are_kept_private_too() -> None:
    stack = good_stack()
    stack.edit("subnet-private-c", "mapPublicIpOnLaunch", True)
    assert [(s.rule, s.resource) for s in said(stack)] == [("private-node-subnets", "subnet-private-c")]


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        (["0.0.0.0/0"], "0.0.0.0/0"),
        (["203.0.113.0/24", "::/0"], "203.0.113.0/24, ::/0"),
        ([], "no publicAccessCidrs, which EKS reads as 0.0.0.0/0"),
    ],
)
@pytest.mark.parametrize("public", [True, None])
def test_an_api_open_to_all_is_refused(ranges: list[str], words: str, public: bool | None) -> None:
    stack = good_stack()
    stack.edit("cluster", "vpcConfig.endpointPublicAccess", public)
    stack.edit("cluster", "vpcConfig.publicAccessCidrs", ranges)
    assert said(stack) == found(
        "api-endpoint",
        "cluster",
        f"found a public API endpoint of cluster cluster open to {words}; "
        "allowed: named CIDRs, or no public endpoint; "
        "why: whoever reaches the API can try stolen credentials against it; "
        "fix: set apiAccess to insideVpc, or apiPublicCidrs to the ranges that you work from",
    )


def test_an_api_inside_the_vpc_needs_no_ranges() -> None:
    stack = good_stack()
    stack.edit("cluster", "vpcConfig.endpointPublicAccess", False)
    stack.edit("cluster", "vpcConfig.publicAccessCidrs", UNKNOWN)
    assert said(stack) == []


@pytest.mark.parametrize("path", ["vpcConfig", "vpcConfig.endpointPublicAccess", "vpcConfig.publicAccessCidrs"])
def test_an_unknown_api_access_is_not_checked(path: str) -> None:
    stack = good_stack()
    stack.edit("cluster", path, UNKNOWN)
    assert said(stack) == [
        Said(
            "api-endpoint",
            "not-checked",
            "cluster",
            "not checked yet: vpcConfig.endpointPublicAccess or publicAccessCidrs is known only at up; "
            "then checked: the API is not open to all",
        )
    ]


def test_rules_say_nothing_of_resources_that_they_are_not_about() -> None:
    stack = good_stack()
    stack.add("bucket", "aws:s3/bucket:Bucket", {"bucket": UNKNOWN, "tags": UNKNOWN})
    stack.add("empty", tokens.NODE_GROUP + "Version", {})
    assert said(stack) == []
