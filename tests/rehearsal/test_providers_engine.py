"""The stand-ins under the real engine: a program's whole life against a standing local AWS, which ends with nothing left."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from rehearsal.lifecycle.leftovers import leftovers
from rehearsal.toolchain.build import build_tool
from rehearsal.toolchain.progress import Progress
from rehearsal.toolchain.pulumi import official_pulumi
from rehearsal.toolchain.tools import ENGINE
from tests.rehearsal.local_aws_support import REGION, Aws, empty_aws, set_faults

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("fixtures") / "standins"
GROUP_URN = "urn:pulumi:test::standins::eks:index:ManagedNodeGroup$aws:eks/nodeGroup:NodeGroup::gpu"


@dataclass
class Stack:
    """A copy of the small program with an engine, plugins and a state of its own."""

    pulumi: Path
    project: Path
    environment: dict[str, str]

    def run(self, *arguments: str, good: bool = True) -> str:
        done = subprocess.run(
            [str(self.pulumi), *arguments, "--stack", "test", "--non-interactive"],
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert (done.returncode == 0) is good, done.stdout + done.stderr
        return done.stdout + done.stderr

    def preview(self) -> dict[str, dict[str, Any]]:
        """Preview, and give the new state of each resource by type and name."""
        text = self.run("preview", "--json")
        steps = json.loads(text[text.index("{") : text.rindex("}") + 1])["steps"]
        return {f"{step['newState']['type']} {step['urn'].split('::')[-1]}": step["newState"] for step in steps}


def launcher(path: Path, *command: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(
        f'#!/bin/sh\nPYTHONPATH={REPOSITORY} exec {sys.executable} {" ".join(command)} "$@"\n', encoding="utf-8"
    )
    path.chmod(0o755)


@pytest.fixture(scope="module")
def programs() -> tuple[Path, dict[str, str]]:
    """Give the engine and the variables that its language host needs; the engine is built when it is not there yet."""
    official = official_pulumi()
    if official is not None:
        return official.pulumi, {}
    with Progress(total=1) as progress:
        built = build_tool(ENGINE, progress)
    return built / "pulumi", {"EFA_RAY_TRAIN_PROGRAM_RUNNER": str(built / "pulumi-language-python-exec")}


@pytest.fixture
def stack(programs: tuple[Path, dict[str, str]], tmp_path: Path) -> Stack:
    pulumi, variables = programs
    project, plugins = tmp_path / "project", tmp_path / "home" / "plugins"
    shutil.copytree(PROGRAM, project)
    for name in ("aws", "eks"):
        folder = plugins / f"resource-{name}-v{version(f'pulumi-{name}')}"
        launcher(folder / f"pulumi-resource-{name}", "-m", "rehearsal.providers", name)
    kubernetes = plugins / f"resource-kubernetes-v{version('pulumi-kubernetes')}"
    launcher(kubernetes / "pulumi-resource-kubernetes", str(Path(__file__).with_name("kubernetes_provider_fake.py")))
    if variables:
        launcher(plugins / "language-python-v3.0.0" / "pulumi-language-python", "-m", "rehearsal.language_host")
    (tmp_path / "state").mkdir()
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PULUMI_", "AWS_", "EFA_RAY_TRAIN_"))
    }
    environment = {
        **kept,
        **variables,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(pulumi.parent), os.environ["PATH"]]),
        "VIRTUAL_ENV": sys.prefix,
        "PULUMI_HOME": str(tmp_path / "home"),
        "PULUMI_BACKEND_URL": f"file://{tmp_path / 'state'}",
        "PULUMI_CONFIG_PASSPHRASE": "test",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_IGNORE_AMBIENT_PLUGINS": "true",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    made = Stack(pulumi, project, environment)
    subprocess.run(
        [str(pulumi), "stack", "init", "test"], cwd=project, env=environment, check=True, capture_output=True
    )
    return made


@pytest.fixture
def aws() -> Iterator[Aws]:
    with empty_aws() as server:
        yield server


def test_preview_needs_no_local_aws_and_shows_the_children_of_the_components(stack: Stack) -> None:
    found = stack.preview()
    children = {key for key, state in found.items() if "eks:index" in state.get("parent", "")}
    assert children == {
        "eks:index:ServiceRole train-eksRole",
        "aws:iam/role:Role train-eksRole-role",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment train-eksRole-4b490823",
        "aws:eks/cluster:Cluster train-eksCluster",
        "aws:eks/addon:Addon train-kube-proxy",
        "eks:index:VpcCniAddon train-vpc-cni",
        "aws:eks/addon:Addon train-vpc-cni",
        "pulumi:providers:kubernetes train-eks-k8s",
        "aws:eks/nodeGroup:NodeGroup gpu",
    }
    assert found["aws:iam/role:Role train-eksRole-role"]["inputs"]["tags"] == {"efa-ray-train:project": "efa-ray-train"}
    cni = json.loads(found["aws:eks/addon:Addon train-vpc-cni"]["inputs"]["configurationValues"])
    assert (cni["enableNetworkPolicy"], cni["env"]["WARM_ENI_TARGET"]) == ("true", "1")
    stack.run("config", "set", "ownSecurityGroups", "true")
    groups = set(stack.preview()) - set(found)
    assert groups == {
        "aws:ec2/securityGroup:SecurityGroup train-eksClusterSecurityGroup",
        "aws:ec2/securityGroupRule:SecurityGroupRule train-eksClusterInternetEgressRule",
        "aws:ec2/securityGroup:SecurityGroup train-nodeSecurityGroup",
        "aws:ec2/securityGroupRule:SecurityGroupRule train-eksNodeIngressRule",
        "aws:ec2/securityGroupRule:SecurityGroupRule train-eksNodeClusterIngressRule",
        "aws:ec2/securityGroupRule:SecurityGroupRule train-eksExtApiServerClusterIngressRule",
        "aws:ec2/securityGroupRule:SecurityGroupRule train-eksNodeInternetEgressRule",
        "aws:ec2/securityGroupRule:SecurityGroupRule train-eksClusterIngressRule",
    }


def test_instance_roles_are_refused_before_anything_is_made(stack: Stack) -> None:
    program = stack.project / "__main__.py"
    program.write_text(
        program.read_text().replace('"train",\n    vpc_id', '"train",\n    instance_roles=[role],\n    vpc_id')
    )
    text = stack.run("preview", good=False)
    assert (
        "The 'instanceRoles' property does not support non-empty values when 'authenticationMode' is set to 'API'."
        in text
    )


def test_whole_life(stack: Stack, aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack.environment["EFA_RAY_TRAIN_AWS_ENDPOINT"] = aws.endpoint
    before = leftovers(aws.endpoint, REGION)
    assert before == {}

    # The zone is full: the update fails in EC2's words, and the group that failed stays in the state.
    fault = {"at": "nodegroup", "code": "InsufficientInstanceCapacity", "instanceType": "g6.12xlarge"}
    set_faults(tmp_path / "faults.json", monkeypatch, fault)
    text = stack.run("up", "--yes", "--skip-preview", good=False)
    assert "InsufficientInstanceCapacity - We currently do not have sufficient g6.12xlarge capacity" in text
    assert aws.running() == []

    # There is room again: the group is replaced, everything else is as it was.
    monkeypatch.delenv("EFA_RAY_TRAIN_FAULTS")
    stack.run("up", "--yes", "--skip-preview", "--replace", GROUP_URN)
    assert len(aws.running()) == 2
    assert {node["SubnetId"] for node in aws.running()} == {
        subnet["SubnetId"]
        for subnet in aws.ec2.describe_subnets(Filters=[{"Name": "cidr-block", "Values": ["10.0.50.0/24"]}])["Subnets"]
    }
    stack.run("preview", "--expect-no-changes")
    stack.run("refresh", "--yes", "--expect-no-changes")
    kubeconfig = json.loads(stack.run("stack", "output", "kubeconfig", "--show-secrets"))
    assert kubeconfig["users"][0]["user"]["exec"]["args"][:2] == ["--region", "us-east-2"]

    # A change of the launch template makes a version and rolls the nodes; nothing is replaced.
    old = {node["InstanceId"] for node in aws.running()}
    stack.run("config", "set", "label", "second")
    text = stack.run("up", "--yes", "--skip-preview")
    assert "3 updated" in text, "the template, the group and the component around it"
    assert "replaced" not in text
    assert not old & {node["InstanceId"] for node in aws.running()}

    stack.run("destroy", "--yes", "--skip-preview")
    assert leftovers(aws.endpoint, REGION) == {}
