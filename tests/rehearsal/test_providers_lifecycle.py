"""Each resource type of the `aws` stand-in through its life in a local AWS: made, read, changed, drifted, deleted."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from google.protobuf import empty_pb2

from rehearsal.providers.aws.kinds import KINDS
from rehearsal.providers.values import ARCHIVE, ASSET, SIGNATURE, UNKNOWN, Properties, Props
from tests.rehearsal.local_aws_support import Aws, empty_aws, set_faults
from tests.rehearsal.provider_support import Aborted, Engine, Resource

TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
    }
)
ALLOW = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}
)
TAGS: Properties = {"efa-ray-train:project": "efa-ray-train"}
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"


@pytest.fixture(scope="module")
def aws() -> Iterator[Aws]:
    with empty_aws() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("EFA_RAY_TRAIN_AWS_ENDPOINT", server.endpoint)
        yield server


def make_world() -> dict[str, Resource]:
    """Make one of each type, each from those before it."""
    engine, made = Engine(), dict[str, Resource]()

    def make(key: str, token: str, inputs: Properties) -> Resource:
        made[key] = engine.create(token, key, inputs)
        return made[key]

    vpc = make("vpc", "aws:ec2/vpc:Vpc", {"cidrBlock": "10.0.0.0/16", "enableDnsHostnames": True, "tags": TAGS})
    subnets = {
        zone: make(
            f"subnet-{zone}",
            "aws:ec2/subnet:Subnet",
            {"vpcId": vpc.id, "cidrBlock": f"10.0.{n}.0/24", "availabilityZone": f"us-east-2{zone}", "tags": TAGS},
        )
        for n, zone in enumerate("abc")
    }
    gateway = make("igw", "aws:ec2/internetGateway:InternetGateway", {"vpcId": vpc.id, "tags": TAGS})
    eip = make("eip", "aws:ec2/eip:Eip", {"domain": "vpc", "tags": TAGS})
    nat = make(
        "nat", "aws:ec2/natGateway:NatGateway", {"subnetId": subnets["c"].id, "allocationId": eip.id, "tags": TAGS}
    )
    table = make("table", "aws:ec2/routeTable:RouteTable", {"vpcId": vpc.id, "tags": TAGS})
    make(
        "route",
        "aws:ec2/route:Route",
        {"routeTableId": table.id, "destinationCidrBlock": "0.0.0.0/0", "natGatewayId": nat.id},
    )
    make(
        "association",
        "aws:ec2/routeTableAssociation:RouteTableAssociation",
        {"routeTableId": table.id, "subnetId": subnets["a"].id},
    )
    make(
        "endpoint",
        "aws:ec2/vpcEndpoint:VpcEndpoint",
        {"vpcId": vpc.id, "serviceName": "com.amazonaws.us-east-2.s3", "routeTableIds": [table.id], "tags": TAGS},
    )
    group = make("group", "aws:ec2/securityGroup:SecurityGroup", {"vpcId": vpc.id, "description": "EFA", "tags": TAGS})
    itself: Properties = {
        "securityGroupId": group.id,
        "referencedSecurityGroupId": group.id,
        "ipProtocol": "-1",
        "tags": TAGS,
    }
    make("ingress", "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule", itself)
    make("egress", "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule", itself)
    old: Properties = {
        "securityGroupId": group.id,
        "type": "ingress",
        "protocol": "tcp",
        "fromPort": 443,
        "toPort": 443,
        "cidrBlocks": ["10.0.0.0/16"],
    }
    make("old-rule", "aws:ec2/securityGroupRule:SecurityGroupRule", old)
    placement = make("placement", "aws:ec2/placementGroup:PlacementGroup", {"strategy": "cluster", "tags": TAGS})
    reserved: Properties = {
        "availabilityZone": "us-east-2b",
        "instanceType": "g6.12xlarge",
        "instancePlatform": "Linux/UNIX",
        "instanceCount": 2,
        "tags": TAGS,
    }
    make("reservation", "aws:ec2/capacityReservation:CapacityReservation", reserved)
    key = make(
        "key",
        "aws:kms/key:Key",
        {"description": "k", "enableKeyRotation": True, "deletionWindowInDays": 7, "tags": TAGS},
    )
    make("alias", "aws:kms/alias:Alias", {"targetKeyId": key.id})
    role = make("role", "aws:iam/role:Role", {"assumeRolePolicy": TRUST, "tags": TAGS})
    make("role-policy", "aws:iam/rolePolicy:RolePolicy", {"role": role.id, "policy": ALLOW})
    policy = "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"
    make("attachment", "aws:iam/rolePolicyAttachment:RolePolicyAttachment", {"role": role.id, "policyArn": policy})
    bucket = make("Bucket", "aws:s3/bucket:Bucket", {"tags": TAGS})
    encryption: Properties = {
        "applyServerSideEncryptionByDefault": {"sseAlgorithm": "aws:kms", "kmsMasterKeyId": key.outputs["arn"]},
        "bucketKeyEnabled": True,
    }
    settings: dict[str, Properties] = {
        "bucketVersioning:BucketVersioning": {"versioningConfiguration": {"status": "Enabled"}},
        "bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": {"rules": [encryption]},
        "bucketPublicAccessBlock:BucketPublicAccessBlock": {"blockPublicAcls": True},
        "bucketOwnershipControls:BucketOwnershipControls": {"rule": {"objectOwnership": "BucketOwnerEnforced"}},
        "bucketLifecycleConfiguration:BucketLifecycleConfiguration": {
            "rules": [{"id": "tmp", "status": "Enabled", "expiration": {"days": 7}}]
        },
        "bucketPolicy:BucketPolicy": {
            "policy": json.dumps(
                {
                    "Version": "2012-10-17",
                    "Statement": [
                        {
                            "Effect": "Deny",
                            "Principal": "*",
                            "Action": "s3:*",
                            "Resource": f"arn:aws:s3:::{bucket.id}/*",
                            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                        }
                    ],
                }
            )
        },
    }
    for token, inputs in settings.items():
        make(token.partition(":")[0], f"aws:s3/{token}", {"bucket": bucket.id, **inputs})
    make(
        "object", "aws:s3/bucketObjectv2:BucketObjectv2", {"bucket": bucket.id, "key": "code/a.txt", "content": "hello"}
    )
    make("logs", "aws:cloudwatch/logGroup:LogGroup", {"retentionInDays": 30, "tags": TAGS})
    lustre: Properties = {
        "subnetIds": subnets["b"].id,
        "storageCapacity": 1200,
        "deploymentType": "SCRATCH_2",
        "tags": TAGS,
    }
    make("lustre", "aws:fsx/lustreFileSystem:LustreFileSystem", lustre)
    cluster = make(
        "cluster",
        "aws:eks/cluster:Cluster",
        {
            "roleArn": role.outputs["arn"],
            "version": "1.35",
            "vpcConfig": {
                "subnetIds": [subnets["a"].id, subnets["b"].id],
                "endpointPrivateAccess": True,
                "endpointPublicAccess": False,
            },
            "accessConfig": {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": True},
            "encryptionConfig": {"provider": {"keyArn": key.outputs["arn"]}, "resources": ["secrets"]},
            "enabledClusterLogTypes": ["api"],
            "tags": TAGS,
        },
    )
    name = cluster.id
    make(
        "addon",
        "aws:eks/addon:Addon",
        {
            "clusterName": name,
            "addonName": "vpc-cni",
            "configurationValues": '{"enableNetworkPolicy":"true"}',
            "tags": TAGS,
        },
    )
    principal = "arn:aws:iam::123456789012:role/path/admin"
    make("entry", "aws:eks/accessEntry:AccessEntry", {"clusterName": name, "principalArn": principal, "tags": TAGS})
    make(
        "access-policy",
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
        {
            "clusterName": name,
            "principalArn": principal,
            "policyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
            "accessScope": {"type": "cluster"},
        },
    )
    make(
        "pod-identity",
        "aws:eks/podIdentityAssociation:PodIdentityAssociation",
        {"clusterName": name, "namespace": "n", "serviceAccount": "s", "roleArn": role.outputs["arn"], "tags": TAGS},
    )
    interface: Properties = {
        "interfaceType": "efa",
        "deviceIndex": 0,
        "networkCardIndex": 0,
        "associatePublicIpAddress": "false",
        "deleteOnTermination": "true",
        "securityGroups": [group.id],
    }
    template = make(
        "template",
        TEMPLATE,
        {
            "instanceType": "g6.12xlarge",
            "networkInterfaces": [interface],
            "placement": {"groupName": placement.id},
            "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1},
            "blockDeviceMappings": [
                {"deviceName": "/dev/xvda", "ebs": {"volumeSize": 100, "volumeType": "gp3", "encrypted": "true"}}
            ],
            "tagSpecifications": [{"resourceType": "instance", "tags": TAGS}],
            "tags": TAGS,
        },
    )
    make(
        "nodes",
        NODE_GROUP,
        {
            "clusterName": name,
            "nodeRoleArn": role.outputs["arn"],
            "subnetIds": [subnets["b"].id],
            "amiType": "AL2023_x86_64_NVIDIA",
            "launchTemplate": {"id": template.id, "version": "1"},
            "scalingConfig": {"minSize": 0, "desiredSize": 2, "maxSize": 2},
            "labels": {"role": "gpu"},
            "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}],
            "updateConfig": {"maxUnavailable": 1},
            "nodeRepairConfig": {"enabled": True},
            "tags": TAGS,
        },
    )
    assert {resource.token for resource in made.values()} == set(KINDS), "a type is missing here"
    assert gateway.outputs["vpcId"] == vpc.id
    return made


@dataclass
class Worlds:
    """The one world that the tests share: each takes it as the one before left it, and the first makes it."""

    as_made: dict[str, Resource] = field(default_factory=dict[str, Resource])
    """What was made, before any test changed it."""
    now: dict[str, Resource] = field(default_factory=dict[str, Resource])
    """Empty when it was deleted."""


@pytest.fixture(scope="module")
def worlds(aws: Aws) -> Worlds:
    assert aws.running() == []
    return Worlds()


@pytest.fixture
def world(worlds: Worlds) -> dict[str, Resource]:
    if not worlds.now:
        worlds.as_made = make_world()
        worlds.now.update(worlds.as_made)
    return worlds.now


@pytest.fixture
def as_made(worlds: Worlds, world: dict[str, Resource]) -> dict[str, Resource]:
    assert world
    return worlds.as_made


@pytest.fixture
def engine(world: dict[str, Resource]) -> Engine:
    assert world
    return Engine()


def changed(template: Resource) -> Properties:
    """Give inputs of the launch template that differ from those it has."""
    hops = 3 - Props(template.inputs).number("metadataOptions.httpPutResponseHopLimit")
    return template.given(metadataOptions={"httpTokens": "required", "httpPutResponseHopLimit": hops})


def another_version(engine: Engine, world: dict[str, Resource]) -> Properties:
    """Make a version of the launch template that no node has yet, and give what a node group names it by."""
    template = engine.update(world["template"], changed(world["template"]))
    world["template"] = template
    return {"id": template.id, "version": str(template.outputs["latestVersion"])}


def test_a_refresh_finds_no_drift_in_anything(engine: Engine, world: dict[str, Resource]) -> None:
    for key, resource in world.items():
        after = engine.read(resource)
        assert after is not None, key
        assert after.inputs == resource.inputs, key
        different = {name for name in after.outputs if after.outputs[name] != resource.outputs.get(name)}
        # The address was given to the NAT gateway after it was read.
        assert different <= ({"associationId", "networkInterface"} if key == "eip" else set()), (key, different)


def test_the_same_inputs_are_no_change(engine: Engine, world: dict[str, Resource]) -> None:
    for key, resource in world.items():
        answer = engine.diff(resource, resource.given())
        assert answer.changes == answer.DIFF_NONE, key


def test_each_tag_change_updates_in_place(engine: Engine, world: dict[str, Resource]) -> None:
    for key, resource in world.items():
        if "tags" not in resource.inputs:
            continue
        inputs = resource.given(tags={**TAGS, "more": "1"})
        answer = engine.diff(resource, inputs)
        assert (answer.changes, list(answer.replaces)) == (answer.DIFF_SOME, []), key
        after = engine.update(resource, inputs)
        read = engine.read(after)
        assert read is not None
        assert read.outputs["tags"] == {**TAGS, "more": "1"}, key
        back = engine.update(after, resource.given(tags=TAGS))
        assert back.outputs["tags"] == TAGS, key
        world[key] = back


@pytest.mark.parametrize(
    ("key", "change", "replaces"),
    [
        ("vpc", {"cidrBlock": "10.1.0.0/16"}, ["cidrBlock"]),
        ("vpc", {"enableDnsHostnames": False}, []),
        ("subnet-a", {"availabilityZone": "us-east-2b"}, ["availabilityZone"]),
        ("subnet-a", {"mapPublicIpOnLaunch": True}, []),
        ("nat", {"subnetId": "subnet-1"}, ["subnetId"]),
        ("route", {"destinationCidrBlock": "10.9.0.0/16"}, ["destinationCidrBlock"]),
        ("group", {"description": "other"}, ["description"]),
        ("ingress", {"securityGroupId": "sg-1"}, ["securityGroupId"]),
        ("old-rule", {"toPort": 444}, ["toPort"]),
        ("placement", {"strategy": "spread"}, ["strategy"]),
        ("template", {"instanceType": "g6.24xlarge"}, []),
        ("cluster", {"version": "1.36"}, []),
        ("cluster", {"roleArn": UNKNOWN}, ["roleArn"]),
        ("addon", {"addonName": "coredns"}, ["addonName"]),
        ("entry", {"kubernetesGroups": ["g"]}, []),
        ("entry", {"type": "EC2_LINUX"}, ["type"]),
        (
            "access-policy",
            {"accessScope": {"type": "namespace", "namespaces": ["n"]}},
            ["accessScope.namespaces", "accessScope.type"],
        ),
        ("pod-identity", {"roleArn": "r"}, []),
        ("pod-identity", {"serviceAccount": "other"}, ["serviceAccount"]),
        ("nodes", {"subnetIds": ["subnet-1"]}, ["subnetIds[0]"]),
        ("nodes", {"amiType": "AL2023_x86_64_STANDARD"}, ["amiType"]),
        ("nodes", {"capacityType": "SPOT"}, ["capacityType"]),
        ("nodes", {"labels": {"role": "cpu"}}, []),
        ("role", {"path": "/x/"}, ["path"]),
        ("key", {"description": "other"}, []),
        ("Bucket", {"bucket": "another-name"}, ["bucket"]),
        ("bucketVersioning", {"versioningConfiguration": {"status": "Suspended"}}, []),
        ("object", {"key": "code/b.txt"}, ["key"]),
        ("logs", {"retentionInDays": 7}, []),
        ("lustre", {"storageCapacity": 2400}, ["storageCapacity"]),
        ("vpc", {"region": "us-west-2"}, ["region"]),
    ],
)
def test_what_replaces(
    engine: Engine, as_made: dict[str, Resource], key: str, change: Properties, replaces: list[str]
) -> None:
    resource = as_made[key]
    answer = engine.diff(resource, resource.given(**change))
    assert answer.changes == answer.DIFF_SOME
    assert sorted(answer.replaces) == replaces
    assert not answer.deleteBeforeReplace


def test_another_launch_template_replaces_the_nodes_and_another_version_does_not(
    engine: Engine, as_made: dict[str, Resource]
) -> None:
    nodes = as_made["nodes"]
    other = engine.diff(nodes, nodes.given(launchTemplate={"id": "lt-1", "version": "1"}))
    newer = engine.diff(nodes, nodes.given(launchTemplate={"id": as_made["template"].id, "version": "2"}))
    assert (list(other.replaces), list(newer.replaces)) == (["launchTemplate.id"], [])


def test_replacement_of_a_name_that_stays_deletes_first(engine: Engine) -> None:
    group = engine.create("aws:ec2/placementGroup:PlacementGroup", "named", {"name": "mine", "strategy": "cluster"})
    assert engine.diff(group, {"name": "mine", "strategy": "spread"}).deleteBeforeReplace
    assert not engine.diff(group, {"name": "other", "strategy": "spread"}).deleteBeforeReplace
    engine.delete(group)


def test_launch_template_update_makes_a_version(engine: Engine, world: dict[str, Resource]) -> None:
    before = world["template"]
    change = changed(before)
    foretold = engine.update(before, change, preview=True)
    assert (foretold.outputs["latestVersion"], foretold.outputs["arn"]) == (UNKNOWN, before.outputs["arn"])
    after = engine.update(before, change)
    assert after.outputs["latestVersion"] == Props(before.outputs).number("latestVersion") + 1
    assert after.id == before.id
    world["template"] = after


def test_nodes_follow_to_the_new_version(engine: Engine, aws: Aws, world: dict[str, Resource]) -> None:
    before = {node["InstanceId"] for node in aws.running()}
    nodes = world["nodes"]
    after = engine.update(nodes, nodes.given(launchTemplate=another_version(engine, world)))
    assert after.outputs["status"] == "ACTIVE"
    assert not before & {node["InstanceId"] for node in aws.running()}
    world["nodes"] = after


def test_nodes_that_find_no_room_at_an_update_fail_it(
    engine: Engine, aws: Aws, world: dict[str, Resource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {node["InstanceId"] for node in aws.running()}
    fault = {"at": "nodegroup", "code": "InsufficientInstanceCapacity", "times": 1}
    set_faults(tmp_path / "faults.json", monkeypatch, fault)
    other = another_version(engine, world)
    with pytest.raises(Aborted) as caught:
        engine.update(world["nodes"], world["nodes"].given(launchTemplate=other))
    assert "unexpected state 'Failed', wanted target 'Successful'. last error: 1 error occurred" in str(caught.value)
    assert "InsufficientInstanceCapacity - We currently do not have sufficient g6.12xlarge" in str(caught.value)
    assert {node["InstanceId"] for node in aws.running()} == before
    # There is room again, for the same update.
    world["nodes"] = engine.update(world["nodes"], world["nodes"].given(launchTemplate=other))
    assert not before & {node["InstanceId"] for node in aws.running()}


@pytest.mark.parametrize(
    ("key", "change", "output", "expected"),
    [
        ("subnet-a", {"mapPublicIpOnLaunch": True}, "mapPublicIpOnLaunch", True),
        ("vpc", {"enableDnsHostnames": False}, "enableDnsHostnames", False),
        ("cluster", {"version": "1.36"}, "version", "1.36"),
        ("cluster", {"enabledClusterLogTypes": ["api", "audit"]}, "enabledClusterLogTypes", ["api", "audit"]),
        ("addon", {"addonVersion": "v1.22.3-eksbuild.1"}, "addonVersion", "v1.22.3-eksbuild.1"),
        ("entry", {"kubernetesGroups": ["readers"]}, "kubernetesGroups", ["readers"]),
        ("nodes", {"labels": {"other": "1"}}, "labels", {"other": "1"}),
        (
            "nodes",
            {"taints": [{"key": "k", "value": "v", "effect": "NO_EXECUTE"}]},
            "taints",
            [{"key": "k", "value": "v", "effect": "NO_EXECUTE"}],
        ),
        (
            "nodes",
            {"scalingConfig": {"minSize": 0, "desiredSize": 1, "maxSize": 2}},
            "scalingConfig",
            {"minSize": 0, "desiredSize": 1, "maxSize": 2},
        ),
        ("key", {"description": "other"}, "description", "other"),
        ("logs", {"retentionInDays": 7}, "retentionInDays", 7),
        ("role", {"description": "other"}, "description", "other"),
    ],
)
def test_update_reaches_the_api(
    engine: Engine, world: dict[str, Resource], key: str, change: Properties, output: str, expected: object
) -> None:
    after = engine.update(world[key], world[key].given(**change))
    world[key] = after
    read = engine.read(after)
    assert read is not None
    assert read.outputs[output] == expected


def test_rule_update_keeps_its_id(engine: Engine, world: dict[str, Resource]) -> None:
    token = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
    inputs: Properties = {
        "securityGroupId": world["group"].id,
        "cidrIpv4": "10.0.0.0/16",
        "ipProtocol": "tcp",
        "fromPort": 1,
        "toPort": 2,
    }
    rule = engine.create(token, "r", inputs)
    after = engine.update(rule, {**inputs, "toPort": 3})
    assert after.id == rule.id
    engine.delete(after)
    assert engine.read(after) is None


def test_drift_comes_back_as_a_change(engine: Engine, aws: Aws, world: dict[str, Resource]) -> None:
    bucket, subnet = world["Bucket"], world["subnet-b"]
    aws.ec2.create_tags(Resources=[subnet.id], Tags=[{"Key": "efa-ray-train:project", "Value": "somebody"}])
    drifted = engine.read(subnet)
    assert drifted is not None
    answer = engine.diff(drifted, subnet.given())
    assert set(answer.detailedDiff) == {'tags["efa-ray-train:project"]', 'tagsAll["efa-ray-train:project"]'}
    engine.update(drifted, subnet.given())
    assert bucket.outputs["bucketRegionalDomainName"] == f"{bucket.id}.s3.us-east-2.amazonaws.com"


def test_import_gives_inputs(engine: Engine, world: dict[str, Resource]) -> None:
    vpc = world["vpc"]
    imported = engine.read(Resource(vpc.token, "again", vpc.id, {}, {}))
    assert imported is not None
    assert imported.inputs["cidrBlock"] == "10.0.0.0/16"
    assert "arn" not in imported.inputs


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({SIGNATURE: ASSET, "text": "hi"}, b"hi"),
        ({SIGNATURE: ASSET, "path": "PATH/a.txt"}, b"from a file"),
        ({SIGNATURE: ARCHIVE, "assets": {"b.txt": {SIGNATURE: ASSET, "text": "hi"}}}, b"PK"),
        ({SIGNATURE: ARCHIVE, "path": "PATH"}, b"PK"),
    ],
)
def test_object_from_an_asset(
    engine: Engine, aws: Aws, world: dict[str, Resource], tmp_path: Path, source: Properties, expected: bytes
) -> None:
    (tmp_path / "a.txt").write_text("from a file")
    given: Properties = {
        name: value.replace("PATH", str(tmp_path)) if isinstance(value, str) else value
        for name, value in source.items()
    }
    made = engine.create(
        "aws:s3/bucketObjectv2:BucketObjectv2", "o", {"bucket": world["Bucket"].id, "key": "x", "source": given}
    )
    body = aws.client("s3").get_object(Bucket=world["Bucket"].id, Key="x")["Body"].read()
    assert body.startswith(expected)
    engine.delete(made)
    assert engine.read(made) is None


def test_refusals_are_worded_as_pulumi_aws_words_them(engine: Engine, world: dict[str, Resource]) -> None:
    with pytest.raises(Aborted) as caught:
        engine.delete(world["subnet-b"])
    text = str(caught.value)
    assert text.startswith(
        f"deleting EC2 Subnet ({world['subnet-b'].id}): operation error EC2: DeleteSubnet, https response error StatusCode: 400, RequestID: "
    )
    assert (
        f"api error DependencyViolation: The subnet '{world['subnet-b'].id}' has dependencies and cannot be deleted."
        in text
    )
    with pytest.raises(Aborted) as caught:
        engine.delete(world["cluster"])
    assert "ResourceInUseException: Cluster has nodegroups attached" in str(caught.value)


def test_group_that_failed_stays_in_the_state(
    engine: Engine, world: dict[str, Resource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """containers-roadmap#2204, pulumi-eks#1607: R09."""
    set_faults(
        tmp_path / "faults.json", monkeypatch, {"at": "nodegroup", "code": "InsufficientInstanceCapacity", "times": 1}
    )
    inputs = world["nodes"].given(launchTemplate={"id": world["template"].id, "version": "1"})
    with pytest.raises(Aborted) as caught:
        engine.create(NODE_GROUP, "failing", inputs)
    text = str(caught.value)
    assert (
        "create: unexpected state 'CREATE_FAILED', wanted target 'ACTIVE'. last error: 1 error occurred:\n\t* eks-failing-"
        in text
    )
    assert (
        "AsgInstanceLaunchFailures: Could not launch On-Demand Instances. InsufficientInstanceCapacity - We currently do not have"
        in text
    )
    half = engine.half_made()
    assert half.id.startswith(f"{world['cluster'].id}:failing-")
    assert half.properties["status"] == "CREATE_FAILED"
    failed = Resource(
        NODE_GROUP,
        "failing",
        half.id,
        engine.checked(NODE_GROUP, "failing", inputs),
        {
            "arn": "a",
        },
    )
    with pytest.raises(
        Aborted, match="ResourceInUseException: Nodegroup cannot be updated as it is currently not in Active State"
    ):
        engine.update(failed, {**inputs, "labels": {"a": "b"}})
    engine.delete(failed)
    assert engine.read(failed) is None


def test_everything_is_deleted_in_the_reverse_order(engine: Engine, aws: Aws, world: dict[str, Resource]) -> None:
    inside = [{"Name": "vpc-id", "Values": [world["vpc"].id]}]
    assert len(aws.ec2.describe_security_groups(Filters=inside)["SecurityGroups"]) == 3, "the VPC's, EKS's and ours"
    resources = list(world.values())
    world.clear()
    for resource in reversed(resources):
        engine.delete(resource)
        # A versioned bucket can only be suspended.
        assert engine.read(resource) is None or resource.token.endswith("BucketVersioning"), resource.token
        engine.delete(resource)  # what is gone already is deleted
    assert aws.running() == []
    # What EC2 and EKS made of themselves is gone too. The account has a default VPC besides, as every account.
    assert aws.ec2.describe_network_interfaces(Filters=inside)["NetworkInterfaces"] == []
    assert aws.ec2.describe_security_groups(Filters=inside)["SecurityGroups"] == []


def test_a_bucket_that_may_be_emptied_goes_with_every_version_and_marker(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, s3 = Engine(), aws.client("s3")
    bucket = engine.create("aws:s3/bucket:Bucket", "full", {"bucket": "full-of-versions", "forceDestroy": True})
    versioning: Properties = {"bucket": bucket.id, "versioningConfiguration": {"status": "Enabled"}}
    engine.create("aws:s3/bucketVersioning:BucketVersioning", "full", versioning)
    for _ in range(2):
        s3.put_object(Bucket=bucket.id, Key="written-twice-then-deleted", Body=b"x")
    s3.delete_object(Bucket=bucket.id, Key="written-twice-then-deleted")
    # In a destroy the versioning goes before the bucket.
    s3.put_bucket_versioning(Bucket=bucket.id, VersioningConfiguration={"Status": "Suspended"})
    # More than are listed at once: 1000 in S3.
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "3")
    for number in range(5):
        s3.put_object(Bucket=bucket.id, Key=f"a-{number}", Body=b"x")
    engine.delete(bucket)
    assert engine.read(bucket) is None


def test_what_is_under_way_goes_on_when_the_engine_is_interrupted(aws: Aws) -> None:
    engine = Engine()
    engine.servicer.Cancel(empty_pb2.Empty(), engine.context)
    vpc = engine.create("aws:ec2/vpc:Vpc", "after", {"cidrBlock": "10.9.0.0/16"})
    engine.delete(vpc)
