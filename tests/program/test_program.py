"""The whole program under mocks: what it registers, in which order, and what it refuses."""

import base64
import json
from collections.abc import Mapping
from email import message_from_bytes
from email.message import Message
from typing import Any

import pulumi
import pytest

from tests.program.recorder import SIGNATURE, World, run_program

SECRET = "1b47061264138c4ac30d75fd1eb44270"
RESERVATION = {
    "efa-ray-train:purchase": "reservation",
    "efa-ray-train:capacityReservationId": "cr-0123456789abcdef0",
    "efa-ray-train:placementGroup": "existing:theirs",
}


def worker(world: World) -> Mapping[str, Any]:
    return world.one("RayCluster", "ray").inputs["spec"]["workerGroupSpecs"][0]["template"]["spec"]


def test_the_stack_has_every_part(dev: World) -> None:
    kinds = [resource.type.rpartition(":")[2] for resource in dev.resources.values()]
    expected = {
        "Vpc": 1, "NatGateway": 1, "PlacementGroup": 1, "LaunchTemplate": 2, "NodeGroup": 2, "Release": 3,
        "Bucket": 1, "PodIdentityAssociation": 1, "Addon": 5, "NetworkPolicy": 6,
    }  # fmt: skip
    assert {kind: kinds.count(kind) for kind in expected} == expected
    assert [resource.name for resource in dev.of("RayCluster")] == ["ray"]
    assert [resource.name for resource in dev.of("RayJob")] == ["training"]


# --- zones ---


def test_gpu_nodes_stand_in_one_subnet_of_the_gpu_zone(dev: World) -> None:
    group = dev.one("NodeGroup", "gpu")
    assert group.inputs["subnetIds"] == ["network-gpu-us-east-2b-id"]
    assert dev.one("Subnet", "network-gpu-us-east-2b").inputs["availabilityZone"] == "us-east-2b"
    assert worker(dev)["nodeSelector"]["topology.kubernetes.io/zone"] == "us-east-2b"
    for tagged in (group, dev.one("PlacementGroup"), dev.one("LaunchTemplate", "gpu")):
        assert tagged.inputs["tags"]["efa-ray-train:gpu-az"] == "us-east-2b"


def test_moving_the_gpu_zone_changes_the_gpu_nodes_alone() -> None:
    here = run_program({"efa-ray-train:gpuAvailabilityZone": "us-east-2b"})
    there = run_program({"efa-ray-train:gpuAvailabilityZone": "us-east-2c"})

    def rest(world: World) -> dict[str, Mapping[str, Any]]:
        gpu = ("gpu", "network-gpu-", "network-s3", "ray", "training", "device-plugins", "code")
        return {urn: found.inputs for urn, found in world.resources.items() if not found.name.startswith(gpu)}

    assert rest(here) == rest(there)
    assert len(rest(here)) > 40
    assert here.one("NodeGroup", "gpu").delete_before_replace


def test_control_plane_has_zones_of_its_own(dev: World) -> None:
    assert dev.one("Cluster").inputs["privateSubnetIds"] == [
        "network-private-us-east-2a-id",
        "network-private-us-east-2c-id",
    ]


def test_us_east_1e_gets_gpus_and_no_control_plane() -> None:
    """An account whose us-east-1e is use1-az3: EKS gives it no control plane, nodes may stand there."""
    world = World(
        zones={"us-east-1a": "use1-az1", "us-east-1b": "use1-az2", "us-east-1e": "use1-az3"},
        offered=("us-east-1a", "us-east-1b", "us-east-1e"),
    )
    config = {
        "aws:region": "us-east-1",
        "efa-ray-train:gpuAvailabilityZone": "us-east-1e",
        "efa-ray-train:controlPlaneAvailabilityZones": '["us-east-1a", "us-east-1b"]',
    }
    run_program(config, world=world)
    assert world.one("NodeGroup", "gpu").inputs["subnetIds"] == ["network-gpu-us-east-1e-id"]
    config["efa-ray-train:controlPlaneAvailabilityZones"] = '["us-east-1a", "us-east-1e"]'
    with pytest.raises(
        pulumi.RunError, match=r"found us-east-1e, which EKS gives no control plane; allowed: us-east-1a, us-east-1b;"
    ):
        run_program(config, world=World(zones=world.zones, offered=world.offered))


def test_a_type_that_the_zone_does_not_offer_is_refused_before_anything_is_made() -> None:
    world = World(offered=("us-east-2c", "us-east-2a"))
    with pytest.raises(pulumi.RunError) as refused:
        run_program(world=world)
    assert str(refused.value) == (
        "gpuAvailabilityZone: found us-east-2b, which does not offer g6.12xlarge; "
        "allowed: us-east-2a, us-east-2c; pulumi config set gpuAvailabilityZone us-east-2a"
    )
    assert not world.resources


def test_a_type_that_the_region_does_not_offer_is_no_zone_problem() -> None:
    with pytest.raises(
        pulumi.RunError, match=r"gpuInstanceType: found g6\.12xlarge, which no zone of us-east-2 offers"
    ):
        run_program(world=World(offered=()))


def test_wrong_settings_are_reported_together_before_anything_is_made() -> None:
    world = World()
    with pytest.raises(pulumi.RunError) as refused:
        run_program({"efa-ray-train:gpuNodeCount": "0", "efa-ray-train:vpcCidr": "10.0.0.0/8"}, world=world)
    assert [line.partition(":")[0] for line in str(refused.value).splitlines()[1:]] == ["vpcCidr", "gpuNodeCount"]
    assert not world.resources


# --- network ---


def test_nodes_have_no_public_address(dev: World) -> None:
    assert all(subnet.inputs["mapPublicIpOnLaunch"] is False for subnet in dev.of("Subnet"))
    (interface,) = dev.one("LaunchTemplate", "gpu").inputs["networkInterfaces"]
    assert interface["associatePublicIpAddress"] == "false"
    nat = {route.name: route.inputs["natGatewayId"] for route in dev.of("Route") if "natGatewayId" in route.inputs}
    assert nat == dict.fromkeys(
        ("network-private-us-east-2a", "network-private-us-east-2c", "network-gpu-us-east-2b"),
        "network-nat-us-east-2a-id",
    )
    public = {
        link.inputs["subnetId"] for link in dev.of("RouteTableAssociation") if link.name.startswith("network-public")
    }
    assert public == {"network-public-us-east-2a-id"}


def test_a_nat_gateway_for_each_zone_serves_its_own_zone() -> None:
    world = run_program({"efa-ray-train:natGateways": "perAvailabilityZone"})
    routes = {route.name: route.inputs.get("natGatewayId") for route in world.of("Route")}
    assert routes["network-private-us-east-2c"] == "network-nat-us-east-2c-id"
    assert routes["network-gpu-us-east-2b"] == "network-nat-us-east-2a-id", "the GPU zone has none: it takes the first"


def test_interface_endpoints_are_made_on_request(dev: World) -> None:
    assert [endpoint.name for endpoint in dev.of("VpcEndpoint")] == ["network-s3"]
    world = run_program({"efa-ray-train:interfaceEndpoints": "true"})
    assert {endpoint.inputs["serviceName"].rpartition("us-east-2.")[2] for endpoint in world.of("VpcEndpoint")} == {
        "s3", "ec2", "ecr.api", "ecr.dkr", "eks-auth", "logs", "sts",
    }  # fmt: skip
    rule = world.one("SecurityGroupIngressRule", "network-endpoints").inputs
    assert (rule["fromPort"], rule["toPort"], rule["cidrIpv4"]) == (443, 443, "10.0.0.0/16")


def test_api_access() -> None:
    def cluster(config: Mapping[str, str]) -> Mapping[str, Any]:
        return run_program(config).one("Cluster").inputs

    inside = cluster({})
    assert (inside["endpointPublicAccess"], inside["endpointPrivateAccess"]) == (False, True)
    rule = run_program({}).one("SecurityGroupIngressRule", "efa-dev-api").inputs
    assert (rule["securityGroupId"], rule["fromPort"], rule["cidrIpv4"]) == ("sg-cluster", 443, "10.0.0.0/16")
    assert "publicAccessCidrs" not in inside
    named = cluster({"efa-ray-train:apiAccess": "publicCidrs", "efa-ray-train:apiPublicCidrs": '["198.51.100.0/24"]'})
    assert (named["endpointPublicAccess"], named["publicAccessCidrs"]) == (True, ["198.51.100.0/24"])


def test_each_admin_gets_an_entry_of_its_own() -> None:
    admins = [f"arn:aws:iam::123456789012:{principal}" for principal in ("role/ops/admin", "role/admin", "user/admin")]
    world = run_program({"efa-ray-train:clusterAdmins": json.dumps([*admins, admins[0]])})
    assert sorted(entry.inputs["principalArn"] for entry in world.of("AccessEntry")) == sorted(admins)
    policies = {link.inputs["policyArn"] for link in world.of("AccessPolicyAssociation")}
    assert policies == {"arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"}


# --- EFA ---


def test_efa_security_group_names_itself_both_ways(dev: World) -> None:
    for rule in (dev.one("SecurityGroupIngressRule", "gpu-efa"), dev.one("SecurityGroupEgressRule", "gpu-efa")):
        assert rule.inputs["securityGroupId"] == rule.inputs["referencedSecurityGroupId"] == "gpu-efa-id"
        assert rule.inputs["ipProtocol"] == "-1"


def test_one_efa_interface_on_g6(dev: World) -> None:
    template = dev.one("LaunchTemplate", "gpu").inputs
    (interface,) = template["networkInterfaces"]
    assert {key: interface[key] for key in ("networkCardIndex", "deviceIndex", "interfaceType", "securityGroups")} == {
        "networkCardIndex": 0,
        "deviceIndex": 0,
        "interfaceType": "efa",
        "securityGroups": ["sg-cluster", "gpu-efa-id"],
    }
    assert not {"vpcSecurityGroupIds", "securityGroupNames"} & set(template)
    assert "subnetId" not in interface


def test_every_network_card_of_p5(p5: World) -> None:
    interfaces = p5.one("LaunchTemplate", "gpu").inputs["networkInterfaces"]
    assert [(card["networkCardIndex"], card["deviceIndex"], card["interfaceType"]) for card in interfaces] == [
        (0, 0, "efa"),
        *((card, 1, "efa-only") for card in range(1, 32)),
    ]
    assert all("associatePublicIpAddress" not in card for card in interfaces), "EC2 refuses it with several interfaces"
    assert worker(p5)["containers"][0]["resources"]["limits"]["vpc.amazonaws.com/efa"] == "32"
    assert p5.one("RayCluster", "ray").inputs["spec"]["workerGroupSpecs"][0]["replicas"] == 4


def test_without_efa_nothing_asks_for_it() -> None:
    world = run_program({"efa-ray-train:efa": "false", "efa-ray-train:placementGroup": "none"})
    template = world.one("LaunchTemplate", "gpu").inputs
    (interface,) = template["networkInterfaces"]
    assert (interface["interfaceType"], interface["securityGroups"]) == ("interface", ["sg-cluster"])
    assert {release.name for release in world.of("Release")} == {"nvidia-device-plugin", "kuberay-operator"}
    assert "efa-ray-train/efa" not in world.one("NodeGroup", "gpu").inputs["labels"]
    (container,) = worker(world)["containers"]
    assert "vpc.amazonaws.com/efa" not in container["resources"]["limits"]
    environment = {item["name"]: item["value"] for item in container["env"]}
    assert "FI_PROVIDER" not in environment
    assert environment["NCCL_NET"] == "Socket"
    assert template["tags"]["efa-ray-train:placement-reason"] == "EFA is off"


# --- placement and purchase ---


def test_a_cluster_placement_group_is_made_and_used(dev: World) -> None:
    assert dev.one("PlacementGroup").inputs["strategy"] == "cluster"
    assert dev.one("LaunchTemplate", "gpu").inputs["placement"] == {"groupName": "gpu-0000000"}
    assert "capacityReservationSpecification" not in dev.one("LaunchTemplate", "gpu").inputs


def test_a_reservation_is_targeted_and_keeps_its_own_group() -> None:
    world = run_program(RESERVATION)
    template = world.one("LaunchTemplate", "gpu").inputs
    assert template["capacityReservationSpecification"] == {
        "capacityReservationTarget": {"capacityReservationId": "cr-0123456789abcdef0"}
    }
    assert template["placement"] == {"groupName": "theirs"}
    assert template["tags"]["efa-ray-train:placement-group"] == "existing/theirs"
    assert not world.of("PlacementGroup")


def test_a_capacity_block_is_bought_without_a_group() -> None:
    world = run_program(
        {
            "efa-ray-train:purchase": "capacityBlock",
            "efa-ray-train:capacityReservationId": "cr-0123456789abcdef0",
            "efa-ray-train:placementGroup": "none",
            "efa-ray-train:gpuInstanceType": "p5.48xlarge",
        }
    )
    template = world.one("LaunchTemplate", "gpu").inputs
    assert template["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert world.one("NodeGroup", "gpu").inputs["capacityType"] == "CAPACITY_BLOCK"
    assert "placement" not in template
    assert template["tags"]["efa-ray-train:placement-reason"] == "a Capacity Block places its instances itself"
    assert world.outputs["hourlyPriceUsd"] is None, "a Capacity Block has a market price"


def test_spot() -> None:
    assert run_program({"efa-ray-train:purchase": "spot"}).one("NodeGroup", "gpu").inputs["capacityType"] == "SPOT"


# --- nodes ---


def test_every_launch_template_asks_for_imdsv2_and_encrypts_its_volume(dev: World) -> None:
    for template in dev.of("LaunchTemplate"):
        assert template.inputs["metadataOptions"]["httpTokens"] == "required"
        assert template.inputs["metadataOptions"]["httpPutResponseHopLimit"] == 1
        (volume,) = template.inputs["blockDeviceMappings"]
        assert (volume["ebs"]["encrypted"], volume["ebs"]["kmsKeyId"]) == ("true", "arn:aws:mock:::efa-dev")
        tagged = {spec["resourceType"] for spec in template.inputs["tagSpecifications"]}
        assert tagged == {"instance", "volume", "network-interface"}


def test_gpu_group_has_driver_labels_taint_and_an_update_without_spare_nodes(dev: World) -> None:
    group = dev.one("NodeGroup", "gpu").inputs
    assert group["amiType"] == "AL2023_x86_64_NVIDIA"
    assert group["labels"] == {
        "efa-ray-train/role": "gpu",
        "nvidia.com/gpu.present": "true",
        "efa-ray-train/efa": "true",
    }
    assert group["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]
    assert group["updateConfig"] == {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}
    assert group["nodeRepairConfig"] == {"enabled": True}
    assert group["scalingConfig"] == {"desiredSize": 2, "minSize": 0, "maxSize": 2}


def test_local_disks_become_one_volume_for_containerd_and_kubelet(dev: World) -> None:
    message = message_from_bytes(base64.b64decode(dev.one("LaunchTemplate", "gpu").inputs["userData"]))
    (part,) = list(message.walk())[1:]
    assert isinstance(part, Message)
    assert part.get_content_type() == "application/node.eks.aws"
    assert json.loads(str(part.get_payload()))["spec"]["instance"]["localStorage"]["strategy"] == "RAID0"
    assert "userData" not in dev.one("LaunchTemplate", "system").inputs


def test_key_policy_lets_auto_scaling_open_node_volumes(dev: World) -> None:
    policy = json.loads(dev.one("Key", "efa-dev").inputs["policy"])
    scaling = "arn:aws:iam::123456789012:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
    named = [
        item
        for item in policy["Statement"]
        if item.get("Condition", {}).get("ArnEquals", {}).get("aws:PrincipalArn") == scaling
    ]
    assert "kms:CreateGrant" in [action for item in named for action in [item["Action"]] if isinstance(action, str)]
    assert any("kms:Decrypt" in item["Action"] for item in named)


# --- storage and identity ---


def test_bucket_is_private_versioned_encrypted_and_kept(dev: World) -> None:
    assert dev.one("BucketVersioning").inputs["versioningConfiguration"]["status"] == "Enabled"
    block = dev.one("BucketPublicAccessBlock").inputs
    assert all(
        block[key] for key in ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
    )
    (rule,) = dev.one("BucketServerSideEncryptionConfiguration").inputs["rules"]
    assert rule["applyServerSideEncryptionByDefault"] == {
        "sseAlgorithm": "aws:kms",
        "kmsMasterKeyId": "arn:aws:mock:::artifacts",
    }
    (statement,) = json.loads(dev.one("BucketPolicy").inputs["policy"])["Statement"]
    assert (statement["Effect"], statement["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    kept = {found.name for found in dev.resources.values() if found.retain_on_delete}
    assert kept == {"artifacts", "code"}
    assert dev.one("Bucket").inputs["forceDestroy"] is False


def test_a_stack_that_keeps_nothing_empties_its_bucket() -> None:
    world = run_program({"efa-ray-train:keepArtifacts": "false"})
    assert world.one("Bucket").inputs["forceDestroy"] is True
    assert not world.one("Key", "artifacts").retain_on_delete


def test_pods_may_read_code_and_write_results_and_nothing_else(dev: World) -> None:
    statements = json.loads(dev.one("RolePolicy", "ray").inputs["policy"])["Statement"]
    bucket = "arn:aws:mock:::artifacts"
    writes = [item for item in statements if "s3:PutObject" in item["Action"]]
    assert [item["Resource"] for item in writes] == [
        [f"{bucket}/{prefix}/*" for prefix in ("checkpoints", "runs", "logs")]
    ]
    assert all(item["Resource"] != "*" for item in statements)
    association = dev.one("PodIdentityAssociation").inputs
    assert (association["namespace"], association["serviceAccount"]) == ("ray-train", "ray")
    assert worker(dev)["serviceAccountName"] == "ray"
    assert worker(dev)["automountServiceAccountToken"] is False


def test_a_pod_may_ask_whether_the_bucket_is_there(dev: World) -> None:
    """HeadBucket is ListBucket without a prefix; pyarrow asks it before each write."""
    statements = json.loads(dev.one("RolePolicy", "ray").inputs["policy"])["Statement"]
    conditions = [item["Condition"] for item in statements if item["Action"] == "s3:ListBucket"]
    assert {"Null": {"s3:prefix": "true"}} in conditions


def test_logs_of_the_control_plane_end_with_the_stack(dev: World) -> None:
    logs = dev.one("LogGroup")
    assert (logs.inputs["name"], logs.inputs["retentionInDays"]) == ("/aws/eks/efa-dev/cluster", 30)
    assert logs.urn in dev.ancestors(dev.one("Cluster").urn), "else EKS makes a group of its own first"
    assert dev.one("Cluster").inputs["name"] == "efa-dev"


def test_another_file_system_gets_another_claim() -> None:
    """A claim in use is not deleted and a static one does not grow: old and new stand side by side until the pods have moved."""
    small, large = (run_program({"efa-ray-train:fsxCapacityGib": size}) for size in ("1200", "2400"))
    names = [world.one("PersistentVolumeClaim").inputs["metadata"]["name"] for world in (small, large)]
    assert names == ["fsx-us-east-2b-1200", "fsx-us-east-2b-2400"]
    assert worker(large)["volumes"][-1] == {"name": "shared", "persistentVolumeClaim": {"claimName": names[1]}}


def test_a_bucket_outside_the_stack_is_opened_at_its_prefix_alone() -> None:
    world = run_program({"efa-ray-train:storagePath": "s3://theirs/runs/a"})
    statements = json.loads(world.one("RolePolicy", "ray").inputs["policy"])["Statement"]
    (write,) = [item for item in statements if "s3:PutObject" in item["Action"] and "theirs" in str(item["Resource"])]
    assert write["Resource"] == ["arn:aws:s3:::theirs/runs/a/*"]
    assert world.outputs["checkpointUri"].startswith("s3://theirs/runs/a/checkpoints/train-")
    assert "--storage-path=s3://theirs/runs/a/checkpoints" in world.one("RayJob").inputs["spec"]["entrypoint"]


def test_fsx_stands_beside_the_gpus_and_is_mounted() -> None:
    world = run_program({"efa-ray-train:fsxCapacityGib": "1200", "efa-ray-train:storagePath": "/fsx/runs"})
    assert world.one("LustreFileSystem").inputs["subnetIds"] == "network-gpu-us-east-2b-id"
    claim = world.one("PersistentVolumeClaim").inputs
    assert claim["spec"]["storageClassName"] == ""
    rules = {
        found.urn
        for kind in ("SecurityGroupIngressRule", "SecurityGroupEgressRule")
        for found in world.of(kind)
        if found.name.startswith("fsx-")
    }
    assert len(rules) == 8
    assert rules <= world.one("LustreFileSystem").depends_on, "FSx looks at the rules when it is asked"
    (container,) = worker(world)["containers"]
    assert {"name": "shared", "mountPath": "/fsx"} in container["volumeMounts"]
    assert world.one("Addon", "fsx-aws-fsx-csi-driver")


# --- order ---


@pytest.mark.parametrize(
    ("kind", "name", "before"),
    [
        (
            "NodeGroup",
            "gpu",
            ["network-nat-us-east-2a", "network-gpu-us-east-2b", "efa-dev-vpc-cni", "gpu-AmazonEKSWorkerNodePolicy"],
        ),
        (
            "NodeGroup",
            "system",
            ["network-nat-us-east-2a", "efa-dev-vpc-cni", "efa-dev-kube-proxy", "efa-dev-eks-pod-identity-agent"],
        ),
        ("Release", "nvidia-device-plugin", ["gpu"]),
        ("Release", "aws-efa-k8s-device-plugin", ["gpu"]),
        ("Release", "kuberay-operator", ["system", "ray-namespace", "system-coredns"]),
        (
            "RayCluster",
            "ray",
            ["nvidia-device-plugin", "aws-efa-k8s-device-plugin", "kuberay-operator", "ray-default-deny"],
        ),
        ("RayJob", "training", ["code", "nvidia-device-plugin", "kuberay-operator"]),
    ],
)
def test_what_stands_before_what(dev: World, kind: str, name: str, before: list[str]) -> None:
    above = {urn.rpartition("::")[2] for urn in dev.ancestors(dev.one(kind, name).urn)}
    assert set(before) <= above, sorted(above)


def test_job_waits_for_cluster(dev: World) -> None:
    assert dev.one("RayCluster").urn in dev.ancestors(dev.one("RayJob").urn)


def test_every_kubernetes_resource_goes_with_the_cluster(dev: World) -> None:
    cluster = dev.one("Cluster").urn
    inside = [found for found in dev.resources.values() if found.type.startswith(("kubernetes:", "aws:eks/addon"))]
    assert len(inside) > 12
    assert [found.name for found in inside if dev.deleted_with(found) != cluster] == []


# --- the run ---


def test_an_awaited_run_and_its_name(dev: World) -> None:
    job = dev.one("RayJob")
    name = job.inputs["metadata"]["name"]
    assert job.inputs["spec"]["jobId"] == name == dev.outputs["jobName"]
    assert job.inputs["metadata"]["annotations"] == {
        "pulumi.com/waitFor": "jsonpath={.status.endTime}",
        "pulumi.com/timeoutSeconds": "4200",
    }
    assert set(job.replace_on_changes) == {"spec", "metadata.name"}
    assert job.delete_before_replace
    assert run_program().outputs["jobName"] == name, "no change, no new run"
    for change in (
        {"runId": "again"},
        {"model": "other/model"},
        {"image": "public.ecr.aws/x/ray:2"},
        {"workerCpu": "32"},
    ):
        config = {f"efa-ray-train:{key}": value for key, value in change.items()}
        assert run_program(config).outputs["jobName"] != name, change


@pytest.mark.parametrize("ended", ["FAILED", "STOPPED"])
def test_a_run_that_did_not_succeed_fails_the_update_with_its_own_words(ended: str) -> None:
    status = {"jobStatus": ended, "jobDeploymentStatus": "Failed", "message": "rank 3: loss is NaN"}
    world = World(job_status=status)
    with pytest.raises(pulumi.RunError, match=f"(?s)the training job ended as {ended} .*rank 3: loss is NaN"):
        run_program(world=world)


def test_a_failed_run_does_not_fail_the_next_preview() -> None:
    world = run_program(world=World(job_status={"jobStatus": "FAILED"}), preview=True)
    assert world.outputs["jobStatus"] == "FAILED"


def test_outputs_are_the_contract(dev: World) -> None:
    assert set(dev.outputs) == {
        "region", "gpuAvailabilityZone", "clusterName", "kubeconfig", "rayClusterName", "jobName", "jobStatus",
        "imageDigest", "codeUri", "checkpointUri", "runRecordUri", "transportReportUri", "hourlyPriceUsd", "expiresAt",
        "commands", "jobLogs",
    }  # fmt: skip
    assert set(dev.outputs["commands"]) == {"kubeconfig", "dashboard", "verify"}
    assert set(dev.outputs["jobLogs"]) == {"driver", "workers", "nccl"}
    assert all(set(found) == {"command", "uri"} for found in dev.outputs["jobLogs"].values())
    assert {found["uri"] for found in dev.outputs["jobLogs"].values()} == {"none: these logs end with their pods"}
    assert dev.outputs["hourlyPriceUsd"] == pytest.approx(9.81, abs=0.01)


def test_no_secret_in_clear(dev: World) -> None:
    """The kubeconfig is a secret wherever it goes: to the provider and to the outputs."""
    found = [
        resource
        for resource in dev.resources.values()
        if "secret-in-kubeconfig" in json.dumps(in_clear(resource.inputs), default=repr)
    ]
    assert found == []
    sealed = [
        resource.type
        for resource in dev.resources.values()
        if "secret-in-kubeconfig" in json.dumps(dict(resource.inputs), default=repr)
    ]
    assert sealed == ["pulumi:providers:kubernetes"], "the test looks where the secret is"


def in_clear(value: Any) -> Any:
    """Return `value` without what Pulumi wraps as a secret."""
    if isinstance(value, Mapping):
        return {key: in_clear(item) for key, item in value.items()} if value.get(SIGNATURE) != SECRET else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return [in_clear(item) for item in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]
