"""What the `aws` stand-in refuses and fills in before anything is made: no server is needed."""

import pytest
from pulumi.runtime.proto import provider_pb2

from rehearsal.providers.aws.kinds import KINDS, kind_of
from rehearsal.providers.sdk_schema import resource_schema
from rehearsal.providers.values import UNKNOWN, Properties, encode
from tests.rehearsal.provider_support import Aborted, Engine

TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
CLUSTER = "aws:eks/cluster:Cluster"
VPC = "aws:ec2/vpc:Vpc"
RULE = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
GROUP: Properties = {
    "clusterName": "c",
    "nodeRoleArn": "r",
    "subnetIds": ["s"],
    "scalingConfig": {"minSize": 0, "desiredSize": 1, "maxSize": 1},
}


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    # Whoever calls the API here fails: an address where nothing listens.
    monkeypatch.setenv("EFA_RAY_TRAIN_AWS_ENDPOINT", "http://127.0.0.1:1")
    return Engine()


@pytest.mark.parametrize("token", sorted(KINDS))
def test_each_kind_names_only_properties_that_its_type_has(token: str) -> None:
    kind, schema = kind_of(token), resource_schema(token)
    for path in (*kind.replace_on, *kind.sets, *kind.defaults):
        assert path.split(".")[0] in schema.inputs, path
    for name in kind.recomputed:
        assert name in schema.outputs
    if kind.autoname is not None:
        assert kind.autoname.property in schema.inputs


def test_unknown_type_names_the_closest(engine: Engine) -> None:
    with pytest.raises(Aborted, match=r"has no resource type aws:ec2/vpcs:Vpcs; the closest it has: aws:ec2/vpc:Vpc"):
        engine.check("aws:ec2/vpcs:Vpcs", "main", {})


def test_defaults_name_region_and_tags_are_filled_in(engine: Engine) -> None:
    checked = engine.checked("aws:ec2/securityGroup:SecurityGroup", "efa", {"tags": {"a": "b"}})
    assert checked["__defaults"] == ["description", "name", "region", "revokeRulesOnDelete"]
    assert str(checked["name"]).startswith("efa-")
    assert (checked["region"], checked["tagsAll"], checked["description"]) == (
        "us-east-2",
        {"a": "b"},
        "Managed by Pulumi",
    )


def test_name_is_kept_and_a_given_one_is_taken(engine: Engine) -> None:
    token = "aws:iam/role:Role"
    trust = '{"Version": "2012-10-17", "Statement": []}'
    first = engine.checked(token, "node", {"assumeRolePolicy": trust})
    assert engine.checked(token, "other", {"assumeRolePolicy": trust}, first)["name"] == first["name"]
    assert engine.checked(token, "node", {"assumeRolePolicy": trust, "name": "mine"}, first)["name"] == "mine"


def test_region_of_the_resource_wins(engine: Engine) -> None:
    assert engine.checked(VPC, "main", {"cidrBlock": "10.0.0.0/16", "region": "us-west-2"})["region"] == "us-west-2"


@pytest.mark.parametrize(
    ("token", "inputs", "path", "words"),
    [
        (VPC, {"cidrBlock": "10.0.0.0"}, "cidrBlock", "prefix of /16 to /28"),
        (VPC, {"cidrBlock": "10.0.0.1/16"}, "cidrBlock", "must be a network in CIDR form"),
        (VPC, {"cidrBlock": "10.0.0.0/8"}, "cidrBlock", "found 10.0.0.0/8"),
        ("aws:ec2/natGateway:NatGateway", {"subnetId": "s"}, "allocationId", "required for a public NAT gateway"),
        (
            "aws:ec2/route:Route",
            {"routeTableId": "r", "destinationCidrBlock": "0.0.0.0/0"},
            "gatewayId",
            "exactly one target",
        ),
        (
            "aws:ec2/vpcEndpoint:VpcEndpoint",
            {"vpcId": "v", "serviceName": "s", "subnetIds": ["s"]},
            "subnetIds",
            "not allowed for a Gateway endpoint",
        ),
        (RULE, {"securityGroupId": "g", "ipProtocol": "-1"}, "cidrIpv4", "exactly one of cidrIpv4"),
        (
            RULE,
            {"securityGroupId": "g", "ipProtocol": "-1", "cidrIpv4": "0.0.0.0/0", "fromPort": 0},
            "fromPort",
            'left out when ipProtocol is "-1"',
        ),
        (
            "aws:ec2/securityGroup:SecurityGroup",
            {"ingress": [{"protocol": "-1", "fromPort": 0, "toPort": 0}]},
            "ingress",
            "SecurityGroupIngressRule",
        ),
        (
            "aws:ec2/placementGroup:PlacementGroup",
            {"strategy": "near"},
            "strategy",
            "cluster, partition or spread, found 'near'",
        ),
        (
            "aws:ec2/placementGroup:PlacementGroup",
            {"strategy": "cluster", "partitionCount": 2},
            "partitionCount",
            "only for strategy partition",
        ),
        (
            CLUSTER,
            {"roleArn": "r", "vpcConfig": {"subnetIds": ["a"]}},
            "vpcConfig.subnetIds",
            "at least two zones, found 1",
        ),
        (
            CLUSTER,
            {"roleArn": "r", "vpcConfig": {"subnetIds": ["a", "b"]}, "enabledClusterLogTypes": ["apis"]},
            "enabledClusterLogTypes",
            "found 'apis'",
        ),
        (
            CLUSTER,
            {
                "roleArn": "r",
                "vpcConfig": {
                    "subnetIds": ["a", "b"],
                    "endpointPublicAccess": False,
                    "publicAccessCidrs": ["1.2.3.4/32"],
                },
            },
            "vpcConfig.publicAccessCidrs",
            "only for a public endpoint",
        ),
        (NODE_GROUP, {**GROUP, "amiType": "AL2023"}, "amiType", "AL2023_x86_64_NVIDIA"),
        (NODE_GROUP, {**GROUP, "capacityType": "CHEAP"}, "capacityType", "found 'CHEAP'"),
        (NODE_GROUP, {**GROUP, "taints": [{"key": "k", "effect": "NoSchedule"}]}, "taints[0].effect", "NO_SCHEDULE"),
        (
            NODE_GROUP,
            {**GROUP, "updateConfig": {"maxUnavailable": 0}},
            "updateConfig.maxUnavailable",
            "1 to 100, found 0",
        ),
        (
            NODE_GROUP,
            {**GROUP, "launchTemplate": {"id": "l", "version": "1"}, "diskSize": 20},
            "diskSize",
            "set it in the template",
        ),
        (
            NODE_GROUP,
            {**GROUP, "scalingConfig": {"minSize": 2, "desiredSize": 1, "maxSize": 2}},
            "scalingConfig",
            "found 2, 1, 2",
        ),
        (
            "aws:eks/addon:Addon",
            {"clusterName": "c", "addonName": "a", "configurationValues": "{"},
            "configurationValues",
            "JSON text",
        ),
        (
            "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
            {"clusterName": "c", "principalArn": "p", "policyArn": "q", "accessScope": {"type": "namespace"}},
            "accessScope.namespaces",
            "required for type namespace",
        ),
        ("aws:iam/role:Role", {"assumeRolePolicy": "{}"}, "assumeRolePolicy", "an object with Statement"),
        ("aws:kms/key:Key", {"deletionWindowInDays": 3}, "deletionWindowInDays", "7 to 30, found 3"),
        ("aws:kms/alias:Alias", {"targetKeyId": "k", "name": "main"}, "name", "begin with alias/"),
        ("aws:s3/bucket:Bucket", {"bucket": "Upper"}, "bucket", "found 'Upper'"),
        ("aws:s3/bucket:Bucket", {"versioning": {"enabled": True}}, "versioning", "use aws.s3.BucketVersioning"),
        ("aws:cloudwatch/logGroup:LogGroup", {"retentionInDays": 2}, "retentionInDays", "found 2"),
        (
            "aws:fsx/lustreFileSystem:LustreFileSystem",
            {"subnetIds": "s", "storageCapacity": 1300},
            "storageCapacity",
            "found 1300",
        ),
    ],
)
def test_value_that_aws_would_refuse(engine: Engine, token: str, inputs: Properties, path: str, words: str) -> None:
    _, failures = engine.check(token, "main", inputs)
    assert words in failures[path]
    assert failures[path].startswith(f"{token} main: ")


def interface(card: int, device: int, kind: str = "efa", **more: str) -> Properties:
    return {"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind, **more}


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"networkInterfaces": [interface(0, 0)], "vpcSecurityGroupIds": ["sg"]}, "must not be given together"),
        (
            {
                "instanceType": "p5.48xlarge",
                "networkInterfaces": [interface(0, 0), interface(1, 1, associatePublicIpAddress="true")],
            },
            "cannot be specified when launching with multiple network interfaces",
        ),
        ({"networkInterfaces": [interface(0, 0), interface(0, 0)]}, "each needs its own"),
        ({"networkInterfaces": [interface(1, 1)]}, "card 0, device 0"),
        ({"networkInterfaces": [interface(0, 0, "efa-only")]}, "must carry IP"),
        ({"networkInterfaces": [interface(0, 0, "EFA")]}, "found 'EFA'"),
        ({"instanceType": "m7i.2xlarge", "networkInterfaces": [interface(0, 0)]}, "not supported on m7i.2xlarge"),
        ({"instanceType": "g6.99xlarge", "networkInterfaces": [interface(0, 0)]}, "not known to EC2"),
        (
            {"instanceType": "g6.12xlarge", "networkInterfaces": [interface(0, 0), interface(0, 1, "efa-only")]},
            "at most 1 EFA interfaces, found 2",
        ),
        (
            {"instanceType": "g6e.48xlarge", "networkInterfaces": [interface(0, 0), interface(4, 1)]},
            "4 network cards, indexes 0 to 3, found 4",
        ),
        ({"metadataOptions": {"httpTokens": "always"}}, "optional or required, found 'always'"),
        ({"metadataOptions": {"httpPutResponseHopLimit": 65}}, "1 to 64, found 65"),
        ({"instanceMarketOptions": {"marketType": "block"}}, "capacity-block or spot"),
    ],
)
def test_launch_template_that_could_launch_nothing(engine: Engine, inputs: Properties, words: str) -> None:
    _, failures = engine.check(TEMPLATE, "gpu", inputs)
    assert words in " ".join(failures.values())


def test_launch_template_of_32_cards_passes(engine: Engine) -> None:
    interfaces = [interface(0, 0), *(interface(card, 1, "efa-only") for card in range(1, 32))]
    assert engine.check(TEMPLATE, "gpu", {"instanceType": "p5.48xlarge", "networkInterfaces": [*interfaces]})[1] == {}


def test_unknown_values_are_not_judged(engine: Engine) -> None:
    assert engine.check(TEMPLATE, "gpu", {"instanceType": UNKNOWN, "networkInterfaces": [interface(0, 0)]})[1] == {}
    assert engine.check(CLUSTER, "c", {"roleArn": UNKNOWN, "vpcConfig": {"subnetIds": UNKNOWN}})[1] == {}


def test_preview_foretells_inputs_and_unknown_outputs(engine: Engine) -> None:
    found = engine.preview(VPC, "main", {"cidrBlock": "10.0.0.0/16"})
    assert (found["cidrBlock"], found["arn"], found["mainRouteTableId"], found["enableDnsSupport"]) == (
        "10.0.0.0/16",
        UNKNOWN,
        UNKNOWN,
        True,
    )
    assert "__defaults" not in found


def test_preview_carries_unknown_inputs(engine: Engine) -> None:
    found = engine.preview(
        NODE_GROUP, "gpu", {**GROUP, "subnetIds": UNKNOWN, "launchTemplate": {"id": UNKNOWN, "version": UNKNOWN}}
    )
    assert (found["subnetIds"], found["launchTemplate"]) == (UNKNOWN, {"id": UNKNOWN, "version": UNKNOWN})


def test_endpoint_outside_this_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EFA_RAY_TRAIN_AWS_ENDPOINT", "https://ec2.us-east-2.amazonaws.com")
    with pytest.raises(Aborted, match="a rehearsal never leaves this machine"):
        Engine().create(VPC, "main", {"cidrBlock": "10.0.0.0/16"})


def test_endpoint_where_nothing_answers(engine: Engine) -> None:
    with pytest.raises(Aborted, match=r"nothing answers at http://127\.0\.0\.1:1; start the local AWS"):
        engine.create(VPC, "main", {"cidrBlock": "10.0.0.0/16"})


def test_invokes_without_a_standing_api(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EFA_RAY_TRAIN_AWS_ENDPOINT", raising=False)
    engine = Engine()
    assert engine.invoke("aws:index/getRegion:getRegion")["region"] == "us-east-2"
    assert engine.invoke("aws:index/getPartition:getPartition")["partition"] == "aws"
    assert engine.invoke("aws:index/getCallerIdentity:getCallerIdentity")["accountId"] == "123456789012"
    zones = engine.invoke("aws:index/getAvailabilityZones:getAvailabilityZones", {"state": "available"})
    assert (zones["names"], zones["zoneIds"]) == (
        ["us-east-2a", "us-east-2b", "us-east-2c"],
        ["use2-az1", "use2-az2", "use2-az3"],
    )
    asked: Properties = {
        "locationType": "availability-zone",
        "filters": [{"name": "instance-type", "values": ["g6.12xlarge"]}],
    }
    offered = engine.invoke("aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings", asked)
    assert offered["locations"] == ["us-east-2a", "us-east-2b", "us-east-2c"]
    addon: Properties = {"addonName": "coredns", "kubernetesVersion": "1.36", "mostRecent": True}
    assert str(engine.invoke("aws:eks/getAddonVersion:getAddonVersion", addon)["version"]).startswith("v1.")


@pytest.mark.parametrize(
    ("token", "arguments", "words"),
    [
        (
            "aws:index/getRegions:getRegions",
            dict[str, str](),
            "has no function aws:index/getRegions:getRegions; the closest it has: aws:index/getRegion:getRegion",
        ),
        ("aws:index/getCallerIdentity:getCallerIdentity", {"who": "me"}, "does not have the argument who"),
        (
            "aws:eks/getAddonVersion:getAddonVersion",
            {"addonName": "x", "kubernetesVersion": "1.36"},
            "addon x not found",
        ),
        (
            "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings",
            {"filters": [{"name": "color", "values": list[str]()}]},
            "must be instance-type or location, found 'color'",
        ),
    ],
)
def test_bad_invoke(monkeypatch: pytest.MonkeyPatch, token: str, arguments: Properties, words: str) -> None:
    monkeypatch.delenv("EFA_RAY_TRAIN_AWS_ENDPOINT", raising=False)
    with pytest.raises(Aborted) as caught:
        Engine().invoke(token, arguments)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("config", "path", "words"),
    [
        ({"region": "us-east-9"}, "region", "us-east-9"),
        ({"region": "us-east-2", "regoin": "x"}, "regoin", "did you mean region?"),
        ({}, "region", "aws:region is missing"),
    ],
)
def test_bad_configuration(monkeypatch: pytest.MonkeyPatch, config: Properties, path: str, words: str) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    engine = Engine()
    found = engine.servicer.CheckConfig(provider_pb2.CheckRequest(news=encode(config)), engine.context)
    assert words in {failure.property: failure.reason for failure in found.failures}[path]
