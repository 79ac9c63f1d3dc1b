"""The actions that the local AWS adds to moto, driven with boto3."""

from collections.abc import Iterator
from typing import Any

import pytest
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.iam.models import iam_backends

from rehearsal.local_aws import catalog
from rehearsal.local_aws.extensions import ADDED, LocalEc2, LocalEks
from rehearsal.local_aws.instance_types import network_facts
from rehearsal.local_aws.quotas import Quotas
from rehearsal.local_aws.server import serving
from tests.rehearsal.local_aws_support import REGION, Aws, refused


@pytest.fixture(scope="module")
def server() -> Iterator[Aws]:
    with serving() as local:
        yield Aws(local.endpoint)


@pytest.fixture
def aws(server: Aws) -> Aws:
    return server.fresh()


def test_a_reset_forgets_what_was_added(aws: Aws) -> None:
    aws.ec2.create_placement_group(GroupName="gpu", Strategy="cluster")
    _, subnets = aws.network()
    aws.cluster(subnets)
    aws.reset()
    assert aws.ec2.describe_placement_groups()["PlacementGroups"] == []
    refused(lambda: aws.eks.describe_addon(clusterName="train", addonName="vpc-cni"), "ResourceNotFoundException")


def test_each_added_action_is_there() -> None:
    methods = {name.replace("_", "") for kind in (LocalEc2, LocalEks, Quotas) for name in dir(kind)}
    named = [action for service, actions in ADDED.items() if not service.endswith("corrected") for action in actions]
    assert [action for action in named if action.lower() not in methods] == []


def test_a_key_that_nobody_made_is_of_the_own_account_and_costs_nothing_in_others(aws: Aws) -> None:
    aws.ec2.describe_vpcs()
    assert aws.without_account("sts").get_caller_identity()["Account"] == catalog.ACCOUNT
    # Looked for in each partition of each account, the key would make an IAM there, with every policy of AWS.
    assert list(iam_backends[f"{aws.account:012}"]) == ["aws"]


def test_a_key_leads_to_the_account_that_made_it(aws: Aws) -> None:
    aws.client("iam").create_user(UserName="ray")
    made = aws.client("iam").create_access_key(UserName="ray")["AccessKey"]
    caller = aws.without_account("sts", made["AccessKeyId"]).get_caller_identity()
    assert (caller["Account"], caller["Arn"].split("/")[-1]) == (f"{aws.account:012}", "ray")


def test_placement_group_is_made_found_by_tag_and_deleted(aws: Aws) -> None:
    tags = [{"ResourceType": "placement-group", "Tags": [{"Key": "team", "Value": "x"}]}]
    aws.ec2.create_placement_group(GroupName="gpu", Strategy="cluster", TagSpecifications=tags)
    aws.ec2.create_placement_group(GroupName="other", Strategy="spread")
    found = aws.ec2.describe_placement_groups(Filters=[{"Name": "tag:team", "Values": ["x"]}])["PlacementGroups"]
    assert [(group["GroupName"], group["Strategy"], group["State"]) for group in found] == [
        ("gpu", "cluster", "available")
    ]
    aws.ec2.delete_placement_group(GroupName="gpu")
    refused(lambda: aws.ec2.describe_placement_groups(GroupNames=["gpu"]), "InvalidPlacementGroup.Unknown", "gpu")


def test_placement_group_name_is_unique(aws: Aws) -> None:
    aws.ec2.create_placement_group(GroupName="gpu", Strategy="cluster")
    refused(
        lambda: aws.ec2.create_placement_group(GroupName="gpu", Strategy="cluster"),
        "InvalidPlacementGroup.Duplicate",
        "already exists",
    )


def test_placement_group_can_be_retagged(aws: Aws) -> None:
    group = aws.ec2.create_placement_group(GroupName="gpu", Strategy="cluster")["PlacementGroup"]
    aws.ec2.create_tags(Resources=[group["GroupId"]], Tags=[{"Key": "a", "Value": "b"}])
    assert aws.ec2.describe_placement_groups(GroupNames=["gpu"])["PlacementGroups"][0]["Tags"] == [
        {"Key": "a", "Value": "b"}
    ]


def test_capacity_reservation_is_made_and_cancelled(aws: Aws) -> None:
    asked = {
        "InstanceType": "g6.12xlarge",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": "us-east-2a",
        "InstanceCount": 2,
    }
    made = aws.ec2.create_capacity_reservation(**asked)["CapacityReservation"]
    assert (made["State"], made["AvailableInstanceCount"]) == ("active", 2)
    aws.ec2.cancel_capacity_reservation(CapacityReservationId=made["CapacityReservationId"])
    active = aws.ec2.describe_capacity_reservations(Filters=[{"Name": "state", "Values": ["active"]}])
    assert active["CapacityReservations"] == []
    missing = "cr-0000"
    refused(
        lambda: aws.ec2.cancel_capacity_reservation(CapacityReservationId=missing),
        "InvalidCapacityReservationId.NotFound",
        missing,
    )


def test_capacity_reservation_in_a_zone_without_the_type(aws: Aws) -> None:
    offered = {
        entry["Location"] for entry in catalog.offerings("us-west-2", by="availability-zone", types=["p4de.24xlarge"])
    }
    without = next(zone for zone in catalog.zones("us-west-2") if zone not in offered)
    asked: dict[str, Any] = {
        "InstanceType": "p4de.24xlarge",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": without,
    }
    west = aws.client("ec2", "us-west-2")
    message = refused(lambda: west.create_capacity_reservation(**asked, InstanceCount=1), "Unsupported", without)
    assert ", ".join(sorted(offered)) in message


def test_quotas_have_the_g_and_vt_instances(aws: Aws) -> None:
    quotas = aws.client("service-quotas")
    listed = {quota["QuotaName"]: quota for quota in quotas.list_service_quotas(ServiceCode="ec2")["Quotas"]}
    one = quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-DB2E81BA")["Quota"]
    assert listed["Running On-Demand G and VT instances"]["Value"] == one["Value"] >= 96


def test_offerings_of_the_api_and_of_the_catalog_agree(aws: Aws) -> None:
    asked = [{"Name": "instance-type", "Values": ["g6.12xlarge"]}]
    found = aws.ec2.describe_instance_type_offerings(LocationType="availability-zone", Filters=asked)[
        "InstanceTypeOfferings"
    ]
    from_catalog = catalog.offerings(REGION, by="availability-zone", types=["g6.12xlarge"])
    assert {offer["Location"] for offer in found} == {offer["Location"] for offer in from_catalog} != set()


def test_zones_of_the_catalog_are_those_of_moto() -> None:
    for region, zones in RegionsAndZonesBackend.zones.items():
        try:
            ours = {zone: catalog.zone_id(region, zone) for zone in catalog.zones(region)}
        except LookupError:
            continue  # moto has no offerings there, so the catalog does not know the Region
        assert ours == {zone.name: zone.zone_id for zone in zones if zone.zone_type == "availability-zone"}, region


@pytest.mark.parametrize(
    ("instance_type", "cards", "efa"),
    [
        ("g6.12xlarge", 1, 1),
        ("p4d.24xlarge", 4, 4),
        ("p5.48xlarge", 32, 32),
        ("p6-b200.48xlarge", 8, 8),
        ("m7i.2xlarge", 1, 0),
    ],
)
def test_network_facts(instance_type: str, cards: int, efa: int) -> None:
    facts = network_facts(instance_type)
    assert facts is not None
    assert (facts.network_cards, facts.efa_interfaces) == (cards, efa)


def test_launch_template_keeps_its_efa_interface(aws: Aws) -> None:
    template = aws.template(NetworkInterfaces=[{"InterfaceType": "efa", "DeviceIndex": 0, "NetworkCardIndex": 0}])
    data = aws.ec2.describe_launch_template_versions(LaunchTemplateId=template)["LaunchTemplateVersions"][0][
        "LaunchTemplateData"
    ]
    assert data["NetworkInterfaces"][0]["InterfaceType"] == "efa"


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (
            {"SecurityGroupIds": ["sg-1"], "NetworkInterfaces": [{"DeviceIndex": 0}]},
            "InvalidParameterCombination",
            "Network interfaces and an instance-level security groups",
        ),
        (
            {
                "InstanceType": "p5.48xlarge",
                "NetworkInterfaces": [
                    {"DeviceIndex": 0, "AssociatePublicIpAddress": True},
                    {"DeviceIndex": 1, "NetworkCardIndex": 1},
                ],
            },
            "InvalidParameterCombination",
            "associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces",
        ),
        (
            {"InstanceType": "m7i.2xlarge", "NetworkInterfaces": [{"DeviceIndex": 0, "InterfaceType": "efa"}]},
            "InvalidParameterCombination",
            "not supported on m7i.2xlarge",
        ),
        (
            {
                "NetworkInterfaces": [
                    {"DeviceIndex": 0, "InterfaceType": "efa"},
                    {"DeviceIndex": 1, "InterfaceType": "efa-only"},
                ]
            },
            "InvalidParameterValue",
            "at most 1 EFA interfaces, 2 were specified",
        ),
        (
            {
                "InstanceType": "p4d.24xlarge",
                "NetworkInterfaces": [{"DeviceIndex": 0}, {"DeviceIndex": 1, "NetworkCardIndex": 4}],
            },
            "InvalidParameterValue",
            "4 network cards, indexes 0 to 3",
        ),
        ({"NetworkInterfaces": [{"DeviceIndex": 0}, {"DeviceIndex": 0}]}, "InvalidParameterValue", "unique pair"),
    ],
)
def test_launch_template_that_could_launch_nothing(aws: Aws, data: dict[str, Any], code: str, words: str) -> None:
    refused(lambda: aws.template(**data), code, words)


def test_nat_gateway_needs_a_free_address(aws: Aws) -> None:
    _, subnets = aws.network()
    refused(lambda: aws.ec2.create_nat_gateway(SubnetId=subnets[0]), "MissingParameter", "AllocationId")
    address = aws.ec2.allocate_address(Domain="vpc")["AllocationId"]
    gateway = aws.ec2.create_nat_gateway(SubnetId=subnets[0], AllocationId=address)["NatGateway"]["NatGatewayId"]
    refused(lambda: aws.ec2.create_nat_gateway(SubnetId=subnets[1], AllocationId=address), "Resource.AlreadyAssociated")
    refused(lambda: aws.ec2.release_address(AllocationId=address), "InvalidIPAddress.InUse")
    refused(lambda: aws.ec2.delete_subnet(SubnetId=subnets[0]), "DependencyViolation", subnets[0])
    aws.ec2.delete_nat_gateway(NatGatewayId=gateway)
    aws.ec2.release_address(AllocationId=address)
    aws.ec2.delete_subnet(SubnetId=subnets[0])


def test_internet_gateway_of_a_vpc_with_public_addresses_stays(aws: Aws) -> None:
    vpc, subnets = aws.network()
    gateway = aws.ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    aws.ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    address = aws.ec2.allocate_address(Domain="vpc")["AllocationId"]
    aws.ec2.create_nat_gateway(SubnetId=subnets[0], AllocationId=address)
    refused(
        lambda: aws.ec2.detach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc),
        "DependencyViolation",
        "mapped public address",
    )


def test_security_group_that_a_rule_names_stays(aws: Aws) -> None:
    vpc, _ = aws.network()
    one, other = (aws.ec2.create_security_group(GroupName=name, Description="d", VpcId=vpc)["GroupId"] for name in "ab")
    rule = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": one}]}]
    aws.ec2.authorize_security_group_ingress(GroupId=other, IpPermissions=rule)
    refused(
        lambda: aws.ec2.delete_security_group(GroupId=one),
        "DependencyViolation",
        f"resource {one} has a dependent object",
    )
    aws.ec2.revoke_security_group_ingress(GroupId=other, IpPermissions=rule)
    aws.ec2.delete_security_group(GroupId=one)


def test_bucket_policy_that_wants_tls_lets_the_rehearsal_in(aws: Aws) -> None:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="artifacts", CreateBucketConfiguration={"LocationConstraint": REGION})
    deny = '{"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::artifacts/*"%s}'
    tls = deny % ', "Condition": {"Bool": {"aws:SecureTransport": "false"}}'
    s3.put_bucket_policy(Bucket="artifacts", Policy=f'{{"Version": "2012-10-17", "Statement": [{tls}]}}')
    s3.put_object(Bucket="artifacts", Key="a", Body=b"x")
    s3.put_bucket_policy(Bucket="artifacts", Policy=f'{{"Version": "2012-10-17", "Statement": {deny % ""}}}')
    refused(lambda: s3.put_object(Bucket="artifacts", Key="a", Body=b"x"), "403")


def test_managed_policies_can_be_attached(aws: Aws) -> None:
    iam = aws.client("iam")
    iam.create_role(RoleName="r", AssumeRolePolicyDocument="{}")
    iam.attach_role_policy(RoleName="r", PolicyArn="arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")
    refused(
        lambda: iam.attach_role_policy(RoleName="r", PolicyArn="arn:aws:iam::aws:policy/AmazonNothing"), "NoSuchEntity"
    )


def test_what_is_not_implemented_says_so(aws: Aws) -> None:
    refused(
        lambda: aws.ec2.describe_capacity_block_offerings(CapacityDurationHours=24),
        "NotImplemented",
        "does not have this (ec2)",
    )
    refused(lambda: aws.eks.list_insights(clusterName="train"), "NotImplemented", "does not have this (eks)")
