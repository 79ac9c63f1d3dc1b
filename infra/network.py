"""VPC, subnets, NAT, routes and endpoints: nodes have no public address and reach out through NAT or an endpoint."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network

import pulumi
import pulumi_aws as aws

from infra.subnets import gpu_subnet_cidr, private_subnet_cidr, public_subnet_cidr
from infra.tags import Tagger

ENDPOINT_SERVICES = ("ec2", "ecr.api", "ecr.dkr", "eks-auth", "logs", "sts")
"""What nodes and pods call in normal work; S3 has a gateway endpoint, which costs nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkArgs:
    """Where the network stands and how it reaches out."""

    region: str
    vpc_cidr: str
    control_plane_zones: tuple[str, ...]
    gpu_zone: str
    nat_per_zone: bool
    interface_endpoints: bool
    tag: Tagger


class Network(pulumi.ComponentResource):
    """A VPC with private subnets for the control plane and CPU nodes, and one of its own for the GPU nodes.

    The NAT gateway stands in the first control-plane zone, apart from the GPU zone: moving the GPU nodes makes a GPU subnet and touches
    nothing else.
    """

    vpc_id: pulumi.Output[str]
    control_plane_subnet_ids: pulumi.Output[list[str]]
    """One private subnet a control-plane zone; CPU nodes stand here too."""
    gpu_subnet_id: pulumi.Output[str]
    ready: list[pulumi.Resource]
    """What has to stand before a node can reach out: routes and endpoints."""

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("efa-ray-train:infra:Network", name, None, opts)
        self._name, self._args = name, args
        self._child = pulumi.ResourceOptions(parent=self)
        self.ready = []
        vpc_range = IPv4Network(args.vpc_cidr)
        self._vpc = aws.ec2.Vpc(
            name,
            cidr_block=args.vpc_cidr,
            enable_dns_support=True,
            enable_dns_hostnames=True,
            tags=args.tag("vpc"),
            opts=self._child,
        )
        private = {
            zone: self._subnet(f"private-{zone}", zone, private_subnet_cidr(vpc_range, zone))
            for zone in args.control_plane_zones
        }
        gpu = self._subnet(f"gpu-{args.gpu_zone}", args.gpu_zone, gpu_subnet_cidr(vpc_range, args.gpu_zone))
        gateways = self._gateways(vpc_range)
        tables = {
            f"private-{zone}": self._private_routes(f"private-{zone}", zone, subnet, gateways)
            for zone, subnet in private.items()
        }
        tables[f"gpu-{args.gpu_zone}"] = self._private_routes(f"gpu-{args.gpu_zone}", args.gpu_zone, gpu, gateways)
        self._endpoints(tables, list(private.values()))

        self.vpc_id = self._vpc.id
        self.control_plane_subnet_ids = pulumi.Output.all(*(subnet.id for subnet in private.values())).apply(list)
        self.gpu_subnet_id = gpu.id
        self.register_outputs({"vpcId": self.vpc_id, "gpuSubnetId": self.gpu_subnet_id})

    def _subnet(self, role: str, zone: str, cidr: IPv4Network) -> aws.ec2.Subnet:
        return aws.ec2.Subnet(
            f"{self._name}-{role}",
            vpc_id=self._vpc.id,
            availability_zone=zone,
            cidr_block=str(cidr),
            map_public_ip_on_launch=False,
            tags=self._args.tag(role),
            opts=self._child,
        )

    def _gateways(self, vpc_range: IPv4Network) -> Mapping[str, aws.ec2.NatGateway]:
        """Make a public subnet with a NAT gateway in the first control-plane zone, or in each."""
        args, name = self._args, self._name
        internet = aws.ec2.InternetGateway(name, vpc_id=self._vpc.id, tags=args.tag("internet"), opts=self._child)
        table = aws.ec2.RouteTable(f"{name}-public", vpc_id=self._vpc.id, tags=args.tag("public"), opts=self._child)
        outward = aws.ec2.Route(
            f"{name}-public",
            route_table_id=table.id,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=internet.id,
            opts=self._child,
        )
        gateways: dict[str, aws.ec2.NatGateway] = {}
        for zone in args.control_plane_zones if args.nat_per_zone else args.control_plane_zones[:1]:
            subnet = self._subnet(f"public-{zone}", zone, public_subnet_cidr(vpc_range, zone))
            link = aws.ec2.RouteTableAssociation(
                f"{name}-public-{zone}", route_table_id=table.id, subnet_id=subnet.id, opts=self._child
            )
            address = aws.ec2.Eip(f"{name}-nat-{zone}", domain="vpc", tags=args.tag(f"nat-{zone}"), opts=self._child)
            gateways[zone] = aws.ec2.NatGateway(
                f"{name}-nat-{zone}",
                allocation_id=address.allocation_id,
                subnet_id=subnet.id,
                tags=args.tag(f"nat-{zone}"),
                opts=pulumi.ResourceOptions(parent=self, depends_on=[outward, link]),
            )
        return gateways

    def _private_routes(
        self, role: str, zone: str, subnet: aws.ec2.Subnet, gateways: Mapping[str, aws.ec2.NatGateway]
    ) -> aws.ec2.RouteTable:
        """Send a private subnet out through the NAT gateway of its zone, or through the first one where its zone has none."""
        name = f"{self._name}-{role}"
        gateway = gateways.get(zone) or gateways[self._args.control_plane_zones[0]]
        table = aws.ec2.RouteTable(name, vpc_id=self._vpc.id, tags=self._args.tag(role), opts=self._child)
        route = aws.ec2.Route(
            name,
            route_table_id=table.id,
            destination_cidr_block="0.0.0.0/0",
            nat_gateway_id=gateway.id,
            opts=self._child,
        )
        link = aws.ec2.RouteTableAssociation(name, route_table_id=table.id, subnet_id=subnet.id, opts=self._child)
        self.ready += [route, link]
        return table

    def _endpoints(self, tables: Mapping[str, aws.ec2.RouteTable], subnets: list[aws.ec2.Subnet]) -> None:
        args, name = self._args, self._name
        storage = aws.ec2.VpcEndpoint(
            f"{name}-s3",
            vpc_id=self._vpc.id,
            service_name=f"com.amazonaws.{args.region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[table.id for table in tables.values()],
            tags=args.tag("s3"),
            opts=self._child,
        )
        self.ready.append(storage)
        if not args.interface_endpoints:
            return
        group = aws.ec2.SecurityGroup(
            f"{name}-endpoints",
            vpc_id=self._vpc.id,
            description="VPC endpoints: HTTPS from the VPC",
            tags=args.tag("endpoints"),
            opts=self._child,
        )
        aws.vpc.SecurityGroupIngressRule(
            f"{name}-endpoints",
            security_group_id=group.id,
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            cidr_ipv4=args.vpc_cidr,
            tags=args.tag("endpoints"),
            opts=self._child,
        )
        for service in ENDPOINT_SERVICES:
            self.ready.append(
                aws.ec2.VpcEndpoint(
                    f"{name}-{service.replace('.', '-')}",
                    vpc_id=self._vpc.id,
                    service_name=f"com.amazonaws.{args.region}.{service}",
                    vpc_endpoint_type="Interface",
                    private_dns_enabled=True,
                    subnet_ids=[subnet.id for subnet in subnets],
                    security_group_ids=[group.id],
                    tags=args.tag(service),
                    opts=self._child,
                )
            )
