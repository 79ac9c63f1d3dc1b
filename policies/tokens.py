"""Type tokens that the rules speak of, and the tags and labels by which the stack records its decisions."""

from typing import Final

SUBNET: Final = "aws:ec2/subnet:Subnet"
NODE_GROUP: Final = "aws:eks/nodeGroup:NodeGroup"
LAUNCH_TEMPLATE: Final = "aws:ec2/launchTemplate:LaunchTemplate"
PLACEMENT_GROUP: Final = "aws:ec2/placementGroup:PlacementGroup"
CAPACITY_RESERVATION: Final = "aws:ec2/capacityReservation:CapacityReservation"
LUSTRE: Final = "aws:fsx/lustreFileSystem:LustreFileSystem"
SECURITY_GROUP: Final = "aws:ec2/securityGroup:SecurityGroup"
INGRESS_RULE: Final = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
EGRESS_RULE: Final = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
SECURITY_GROUP_RULE: Final = "aws:ec2/securityGroupRule:SecurityGroupRule"
INTERNET_GATEWAY: Final = "aws:ec2/internetGateway:InternetGateway"
ROUTE_TABLE: Final = "aws:ec2/routeTable:RouteTable"
ROUTE: Final = "aws:ec2/route:Route"
ROUTE_TABLE_ASSOCIATION: Final = "aws:ec2/routeTableAssociation:RouteTableAssociation"
CLUSTER: Final = "aws:eks/cluster:Cluster"
CLUSTERS: Final = (CLUSTER, "eks:index:Cluster")
RAY_CLUSTER: Final = "kubernetes:ray.io/v1:RayCluster"
HELM_RELEASE: Final = "kubernetes:helm.sh/v3:Release"

TAG_ZONE: Final = "efa-ray-train:gpu-az"
TAG_EFA: Final = "efa-ray-train:efa"
TAG_GROUP_REASON: Final = "efa-ray-train:placement-reason"
TAG_ROLE: Final = "efa-ray-train:role"

LABEL_ZONE: Final = "topology.kubernetes.io/zone"
GPU: Final = "nvidia.com/gpu"
EFA: Final = "vpc.amazonaws.com/efa"

EFA_INTERFACES: Final = ("efa", "efa-only")
"""Interface types of a launch template that are EFA devices."""
