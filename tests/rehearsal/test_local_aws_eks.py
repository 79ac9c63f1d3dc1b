"""Clusters, add-ons, access and node groups of the local AWS, driven with boto3."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal.local_aws import faults, kube
from rehearsal.local_aws.server import serving
from tests.rehearsal.local_aws_support import ROLE, Aws, refused, set_faults

ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


@pytest.fixture(scope="module")
def server() -> Iterator[Aws]:
    with serving() as local:
        yield Aws(local.endpoint)


@pytest.fixture
def aws(server: Aws) -> Aws:
    return server.fresh()


def test_cluster_has_what_eks_makes_for_it_and_takes_it_along(aws: Aws) -> None:
    vpc, subnets = aws.network()
    config = aws.cluster(subnets)["resourcesVpcConfig"]
    group = aws.ec2.describe_security_groups(GroupIds=[config["clusterSecurityGroupId"]])["SecurityGroups"][0]
    assert config["vpcId"] == group["VpcId"] == vpc
    assert group["IpPermissions"][0]["UserIdGroupPairs"][0]["GroupId"] == group["GroupId"]
    assert {eni["SubnetId"] for eni in aws.ec2.describe_network_interfaces()["NetworkInterfaces"]} == set(subnets)
    refused(lambda: aws.ec2.delete_subnet(SubnetId=subnets[0]), "DependencyViolation")
    assert len(aws.eks.list_access_entries(clusterName="train")["accessEntries"]) == 1
    aws.eks.delete_cluster(name="train")
    assert aws.ec2.describe_network_interfaces()["NetworkInterfaces"] == []
    for subnet in subnets:
        aws.ec2.delete_subnet(SubnetId=subnet)
    aws.ec2.delete_vpc(VpcId=vpc)


def test_cluster_in_one_zone(aws: Aws) -> None:
    _, subnets = aws.network("a")
    refused(lambda: aws.cluster(subnets), "InvalidParameterException", "at least two different AZs")


def test_cluster_in_a_zone_without_control_planes(aws: Aws) -> None:
    ec2, eks = (aws.client(service, "us-east-1") for service in ("ec2", "eks"))
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{index}.0/24", AvailabilityZone=f"us-east-1{zone}")["Subnet"][
            "SubnetId"
        ]
        for index, zone in enumerate("ae")
    ]
    message = refused(
        lambda: eks.create_cluster(name="train", roleArn=ROLE, resourcesVpcConfig={"subnetIds": subnets}),
        "UnsupportedAvailabilityZoneException",
        "does not support creating control plane instances in us-east-1e",
        "us-east-1a, us-east-1b, us-east-1c, us-east-1d, us-east-1f",
    )
    assert "us-east-1e," not in message.partition("availability zones:")[2]


def test_cluster_of_an_unknown_version(aws: Aws) -> None:
    _, subnets = aws.network()
    refused(lambda: aws.cluster(subnets, version="1.20"), "InvalidParameterException", "1.20")


def test_cluster_version_goes_up_by_one(aws: Aws) -> None:
    _, subnets = aws.network()
    aws.cluster(subnets, version="1.34")
    refused(
        lambda: aws.eks.update_cluster_version(name="train", version="1.36"),
        "InvalidParameterException",
        "from 1.34 to 1.36",
    )
    update = aws.eks.update_cluster_version(name="train", version="1.35")["update"]
    assert aws.eks.describe_update(name="train", updateId=update["id"])["update"]["status"] == "Successful"


def test_cluster_with_deletion_protection_stays(aws: Aws) -> None:
    _, subnets = aws.network()
    aws.cluster(subnets, deletionProtection=True)
    refused(lambda: aws.eks.delete_cluster(name="train"), "InvalidRequestException", "deletion protection")


def test_cluster_answers_with_the_local_kubernetes(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kube.ENDPOINT, "https://127.0.0.1:6443")
    monkeypatch.setenv(kube.AUTHORITY, "Q0E=")
    _, subnets = aws.network()
    made = aws.cluster(subnets)
    assert (made["endpoint"], made["certificateAuthority"]["data"]) == ("https://127.0.0.1:6443", "Q0E=")


def test_addon_is_made_changed_and_deleted(aws: Aws) -> None:
    _, subnets = aws.network()
    aws.cluster(subnets)
    versions = [
        entry["addonVersion"]
        for entry in aws.eks.describe_addon_versions(addonName="vpc-cni", kubernetesVersion="1.36")["addons"][0][
            "addonVersions"
        ]
    ]
    aws.eks.create_addon(
        clusterName="train", addonName="vpc-cni", addonVersion=versions[-1], configurationValues='{"a": 1}'
    )
    aws.eks.update_addon(clusterName="train", addonName="vpc-cni", addonVersion=versions[0])
    addon = aws.eks.describe_addon(clusterName="train", addonName="vpc-cni")["addon"]
    assert (addon["addonVersion"], addon["configurationValues"], addon["status"]) == (versions[0], '{"a": 1}', "ACTIVE")
    assert aws.eks.list_addons(clusterName="train")["addons"] == ["vpc-cni"]
    aws.eks.delete_addon(clusterName="train", addonName="vpc-cni")
    refused(
        lambda: aws.eks.describe_addon(clusterName="train", addonName="vpc-cni"), "ResourceNotFoundException", "vpc-cni"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ({"addonName": "nothing"}, "InvalidParameterException", "nothing"),
        ({"addonName": "coredns", "addonVersion": "v0"}, "InvalidParameterException", "not supported: v0"),
        ({"addonName": "coredns", "configurationValues": "{"}, "InvalidParameterException", "not valid JSON"),
        ({"addonName": "coredns", "configurationValues": "[]"}, "InvalidParameterException", "must be a JSON object"),
    ],
)
def test_bad_addon(aws: Aws, arguments: dict[str, str], code: str, words: str) -> None:
    _, subnets = aws.network()
    aws.cluster(subnets)
    refused(lambda: aws.eks.create_addon(clusterName="train", **arguments), code, words)


def test_access_entry_and_its_policy(aws: Aws) -> None:
    _, subnets = aws.network()
    aws.cluster(subnets)
    who = {"clusterName": "train", "principalArn": "arn:aws:iam::123456789012:role/path/admin"}
    aws.eks.create_access_entry(**who, kubernetesGroups=["a"])
    refused(lambda: aws.eks.create_access_entry(**who), "ResourceInUseException", "already in use")
    aws.eks.associate_access_policy(**who, policyArn=ADMIN, accessScope={"type": "cluster"})
    aws.eks.update_access_entry(**who, kubernetesGroups=["b"])
    assert aws.eks.describe_access_entry(**who)["accessEntry"]["kubernetesGroups"] == ["b"]
    policies = aws.eks.list_associated_access_policies(**who)["associatedAccessPolicies"]
    assert [policy["policyArn"] for policy in policies] == [ADMIN]
    aws.eks.disassociate_access_policy(**who, policyArn=ADMIN)
    refused(lambda: aws.eks.disassociate_access_policy(**who, policyArn=ADMIN), "ResourceNotFoundException")
    aws.eks.delete_access_entry(**who)
    refused(lambda: aws.eks.describe_access_entry(**who), "ResourceNotFoundException", who["principalArn"])


def test_access_policy_of_a_node_entry_is_refused(aws: Aws) -> None:
    _, subnets = aws.network()
    aws.cluster(subnets)
    aws.eks.create_access_entry(clusterName="train", principalArn=ROLE, type="EC2_LINUX")
    refused(
        lambda: aws.eks.associate_access_policy(
            clusterName="train", principalArn=ROLE, policyArn=ADMIN, accessScope={"type": "cluster"}
        ),
        "InvalidRequestException",
        "EC2_LINUX",
    )


def test_access_entry_needs_a_mode_that_has_them(aws: Aws) -> None:
    _, subnets = aws.network()
    aws.eks.create_cluster(name="train", roleArn=ROLE, resourcesVpcConfig={"subnetIds": subnets})
    refused(
        lambda: aws.eks.create_access_entry(clusterName="train", principalArn=ROLE), "InvalidRequestException", "API"
    )


def test_pod_identity_is_one_per_service_account(aws: Aws) -> None:
    _, subnets = aws.network()
    aws.cluster(subnets)
    account = {"clusterName": "train", "namespace": "ray-train", "serviceAccount": "train"}
    made = aws.eks.create_pod_identity_association(**account, roleArn=ROLE)["association"]
    refused(
        lambda: aws.eks.create_pod_identity_association(**account, roleArn=ROLE),
        "ResourceInUseException",
        "ray-train/train",
    )
    key = {"clusterName": "train", "associationId": made["associationId"]}
    aws.eks.update_pod_identity_association(**key, roleArn=f"{ROLE}2")
    assert aws.eks.describe_pod_identity_association(**key)["association"]["roleArn"] == f"{ROLE}2"
    aws.eks.delete_pod_identity_association(**key)
    assert aws.eks.list_pod_identity_associations(clusterName="train")["associations"] == []


def test_node_group_keeps_what_it_was_given_and_runs_instances(aws: Aws) -> None:
    vpc, subnets = aws.network()
    aws.cluster(subnets)
    group = aws.ec2.create_security_group(GroupName="efa", Description="d", VpcId=vpc)["GroupId"]
    aws.ec2.create_placement_group(GroupName="gpu", Strategy="cluster")
    template = aws.template(
        Placement={"GroupName": "gpu"},
        NetworkInterfaces=[{"InterfaceType": "efa", "DeviceIndex": 0, "Groups": [group]}],
    )
    taint = {"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}
    aws.node_group(
        subnets[1:2],
        template,
        labels={"role": "gpu"},
        taints=[taint],
        amiType="AL2023_x86_64_NVIDIA",
        nodeRepairConfig={"enabled": True},
        updateConfig={"maxUnavailable": 1},
    )
    found = aws.eks.describe_nodegroup(clusterName="train", nodegroupName="gpu")["nodegroup"]
    assert (found["status"], found["labels"], found["taints"]) == ("ACTIVE", {"role": "gpu"}, [taint])
    assert found["launchTemplate"] == {"id": template, "name": "gpu", "version": "1"}
    assert (found["nodeRepairConfig"], found["updateConfig"]) == ({"enabled": True}, {"maxUnavailable": 1})
    nodes = aws.running()
    assert len(nodes) == 2
    for node in nodes:
        assert (node["InstanceType"], node["Placement"]["GroupName"], node["SubnetId"]) == (
            "g6.12xlarge",
            "gpu",
            subnets[1],
        )
        assert [held["GroupId"] for held in node["SecurityGroups"]] == [group]
    refused(lambda: aws.ec2.delete_placement_group(GroupName="gpu"), "InvalidPlacementGroup.InUse")
    refused(lambda: aws.ec2.delete_security_group(GroupId=group), "DependencyViolation", group)
    refused(lambda: aws.eks.delete_cluster(name="train"), "ResourceInUseException")
    aws.eks.delete_nodegroup(clusterName="train", nodegroupName="gpu")
    assert aws.running() == []
    aws.ec2.delete_security_group(GroupId=group)
    aws.ec2.delete_placement_group(GroupName="gpu")


def test_node_group_admits_its_nodes(aws: Aws) -> None:
    _, subnets = aws.network()
    aws.cluster(subnets)
    aws.node_group(subnets, instanceTypes=["m7i.2xlarge"])
    assert aws.eks.describe_access_entry(clusterName="train", principalArn=ROLE)["accessEntry"]["type"] == "EC2_LINUX"


def test_two_node_groups_of_one_name(aws: Aws) -> None:
    _, subnets = aws.network()
    aws.cluster(subnets)
    aws.node_group(subnets)
    refused(lambda: aws.node_group(subnets), "ResourceInUseException", "already exists")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"instanceTypes": ["g6.12xlarge"]}, "not in both"),
        ({"scalingConfig": {"minSize": 3, "desiredSize": 2, "maxSize": 4}}, "must lie within"),
        ({"updateConfig": {"maxUnavailable": 101}}, "between 1 and 100"),
        ({"diskSize": 100}, "Disk size must be specified within the launch template"),
    ],
)
def test_bad_node_group(aws: Aws, more: dict[str, Any], words: str) -> None:
    _, subnets = aws.network()
    aws.cluster(subnets)
    template = aws.template()
    refused(lambda: aws.node_group(subnets, template, **more), "InvalidParameterException", words)


def test_launch_template_with_a_subnet_is_refused_for_nodes(aws: Aws) -> None:
    _, subnets = aws.network()
    aws.cluster(subnets)
    template = aws.template(NetworkInterfaces=[{"DeviceIndex": 0, "SubnetId": subnets[0]}])
    refused(lambda: aws.node_group(subnets, template), "InvalidRequestException", "subnet")


def test_placement_group_of_several_zones_creates_and_never_updates(aws: Aws) -> None:
    """terraform-aws-modules/terraform-aws-eks#3044: R01."""
    _, subnets = aws.network()
    aws.cluster(subnets)
    aws.ec2.create_placement_group(GroupName="gpu", Strategy="cluster")
    group = aws.node_group(subnets, aws.template(Placement={"GroupName": "gpu"}))
    assert group["status"] == "ACTIVE"
    refused(
        lambda: aws.eks.update_nodegroup_config(
            clusterName="train", nodegroupName="gpu", labels={"addOrUpdateLabels": {"a": "b"}}
        ),
        "InvalidRequestException",
        "Instances in the Placement Group must be launched in the us-east-2a Availability Zone. "
        "Specify the us-east-2a Availability Zone and try again.",
    )


def health(aws: Aws) -> dict[str, str]:
    found = aws.eks.describe_nodegroup(clusterName="train", nodegroupName="gpu")["nodegroup"]
    assert found["status"] == "CREATE_FAILED"
    return found["health"]["issues"][0]


def test_node_group_in_an_unknown_placement_group_fails(aws: Aws) -> None:
    _, subnets = aws.network()
    aws.cluster(subnets)
    aws.node_group(subnets[:1], aws.template(Placement={"GroupName": "gone"}))
    assert "The Placement Group 'gone' is unknown" in health(aws)["message"]


def test_node_group_outside_the_zone_of_its_placement_group_fails(aws: Aws) -> None:
    _, subnets = aws.network()
    aws.cluster(subnets)
    aws.ec2.create_placement_group(GroupName="gpu", Strategy="cluster")
    template = aws.template(Placement={"GroupName": "gpu"})
    aws.node_group(subnets[:1], template, name="first")
    aws.node_group(subnets[1:], template)
    assert "must be launched in the us-east-2a Availability Zone" in health(aws)["message"]


def test_reservation_made_outside_the_placement_group_has_no_room(aws: Aws) -> None:
    """terraform-aws-modules/terraform-aws-eks#3730: R04."""
    _, subnets = aws.network()
    aws.cluster(subnets)
    aws.ec2.create_placement_group(GroupName="gpu", Strategy="cluster")
    reserved = aws.ec2.create_capacity_reservation(
        InstanceType="g6.12xlarge", InstancePlatform="Linux/UNIX", AvailabilityZone="us-east-2a", InstanceCount=2
    )["CapacityReservation"]["CapacityReservationId"]
    target = {"CapacityReservationTarget": {"CapacityReservationId": reserved}}
    aws.node_group(subnets[:1], aws.template(Placement={"GroupName": "gpu"}, CapacityReservationSpecification=target))
    assert "InsufficientInstanceCapacity" in health(aws)["message"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "InsufficientInstanceCapacity",
            "We currently do not have sufficient g6.12xlarge capacity in the Availability Zone you requested (us-east-2a)",
        ),
        (
            "VcpuLimitExceeded",
            "You have requested more vCPU capacity than your current vCPU limit of 0 allows for the instance bucket",
        ),
        (
            "Unsupported",
            "Your requested instance type (g6.12xlarge) is not supported in your requested Availability Zone (us-east-2a)",
        ),
    ],
)
def test_fault_on_demand(aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, words: str) -> None:
    """R07, R09, R10."""
    set_faults(
        tmp_path / "faults.json", monkeypatch, {"at": "nodegroup", "code": code, "zone": "us-east-2a", "times": 1}
    )
    _, subnets = aws.network()
    aws.cluster(subnets)
    aws.node_group(subnets[:1], aws.template())
    issue = health(aws)
    assert issue["code"] == "AsgInstanceLaunchFailures"
    assert issue["message"].startswith(f"Could not launch On-Demand Instances. {code} - {words}")
    assert issue["message"].endswith("Launching EC2 instance failed.")
    update = lambda: aws.eks.update_nodegroup_config(  # noqa: E731
        clusterName="train", nodegroupName="gpu", scalingConfig={"minSize": 0, "desiredSize": 1, "maxSize": 4}
    )
    refused(update, "ResourceInUseException", "Nodegroup cannot be updated as it is currently not in Active State")
    aws.eks.delete_nodegroup(clusterName="train", nodegroupName="gpu")
    template = aws.ec2.describe_launch_templates()["LaunchTemplates"][0]["LaunchTemplateId"]
    assert aws.node_group(subnets[:1], template)["status"] == "ACTIVE", "the fault was to strike once"


def test_fault_at_an_update_leaves_the_old_nodes(aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, subnets = aws.network()
    aws.cluster(subnets)
    template = aws.template()
    aws.node_group(subnets[:1], template)
    before = {node["InstanceId"] for node in aws.running()}
    aws.ec2.create_launch_template_version(
        LaunchTemplateId=template, LaunchTemplateData={"InstanceType": "g6.12xlarge"}
    )
    set_faults(tmp_path / "faults.json", monkeypatch, {"at": "nodegroup", "code": "InsufficientInstanceCapacity"})
    update = aws.eks.update_nodegroup_version(
        clusterName="train", nodegroupName="gpu", launchTemplate={"id": template, "version": "2"}
    )
    assert update["update"]["status"] == "Failed"
    assert {node["InstanceId"] for node in aws.running()} == before
    monkeypatch.delenv("EFA_RAY_TRAIN_FAULTS")
    aws.eks.update_nodegroup_version(
        clusterName="train", nodegroupName="gpu", launchTemplate={"id": template, "version": "2"}
    )
    assert not before & {node["InstanceId"] for node in aws.running()}


def test_fault_of_a_reservation(aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_faults(tmp_path / "faults.json", monkeypatch, {"at": "reservation", "code": "InsufficientInstanceCapacity"})
    refused(
        lambda: aws.ec2.create_capacity_reservation(
            InstanceType="g6.12xlarge", InstancePlatform="Linux/UNIX", AvailabilityZone="us-east-2b", InstanceCount=2
        ),
        "InsufficientInstanceCapacity",
        "us-east-2a, us-east-2c",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", 'expected {"faults": [...]}'),
        (
            '{"faults": [{"at": "moon", "code": "Unsupported"}]}',
            "faults[0].at: found 'moon'; allowed: nodegroup, reservation",
        ),
        ('{"faults": [{"at": "nodegroup", "code": "x"}]}', "faults[0].code: found 'x'; allowed: Insufficient"),
        ('{"faults": [{"at": "nodegroup", "code": "Unsupported", "zoone": "a"}]}', "faults[0].zoone: unknown key"),
    ],
)
def test_bad_faults_file(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "faults.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r".") as caught:
        faults.load(path)
    assert words in str(caught.value)


def test_node_group_grows_and_shrinks(aws: Aws) -> None:
    _, subnets = aws.network()
    aws.cluster(subnets)
    aws.node_group(subnets, instanceTypes=["m7i.2xlarge"])
    for size in (4, 1, 0):
        sizes = {"minSize": 0, "desiredSize": size, "maxSize": 4}
        aws.eks.update_nodegroup_config(clusterName="train", nodegroupName="gpu", scalingConfig=sizes)
        assert len(aws.running()) == size


@pytest.mark.parametrize("text", ["current-context: a", "current-context: a\ncontexts: []\nclusters: []\nusers: []"])
def test_kubeconfig_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text, encoding="utf-8")
    monkeypatch.setenv(kube.FILE, str(path))
    with pytest.raises(ValueError, match="no kubeconfig with a complete current context"):
        kube.local_cluster()


def test_kubeconfig_file_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kube.FILE, str(tmp_path / "gone"))
    with pytest.raises(ValueError, match="no such file"):
        kube.local_cluster()
