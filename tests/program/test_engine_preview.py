"""The whole program in the real engine, with the policy pack on, as `make preview` runs it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rehearsal.drills.program import copy_program

ROOT = Path(__file__).parents[2]


def preview(state: Path, *arguments: str, directory: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "EFA_RAY_TRAIN_STATE": str(state)}
    command = [sys.executable, "-m", "rehearsal", "preview", "--directory", str(directory), *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False)


# One worker runs them all, so that each stack is previewed once.
together = pytest.mark.xdist_group("preview of the program")


Steps = list[Mapping[str, Any]]


@pytest.fixture(scope="session")
def previewed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Steps]:
    state = tmp_path_factory.mktemp("state")

    @cache
    def steps_of(stack: str) -> Steps:
        done = preview(state, "--stack", stack, "--json")
        assert done.returncode == 0, done.stderr
        # Whatever else stood on stdout would not be JSON.
        return [step["newState"] for step in json.loads(done.stdout)["steps"]]

    return steps_of


@pytest.fixture(params=["rehearsal", "dev"])
def steps(request: pytest.FixtureRequest, previewed: Callable[[str], Steps]) -> Steps:
    return previewed(request.param)


@together
def test_the_preview_lists_every_part(steps: Steps) -> None:
    kinds = [state["type"].rpartition(":")[2] for state in steps if not state["type"].startswith("efa-ray-train:")]
    counts = {kind: kinds.count(kind) for kind in kinds}
    expected = {
        "Vpc": 1,
        "NatGateway": 1,
        "PlacementGroup": 1,
        "NodeGroup": 2,
        "Release": 3,
        "RayCluster": 1,
        "RayJob": 1,
    }
    assert {kind: counts.get(kind) for kind in expected} == expected
    private = [state["inputs"] for state in steps if state["type"].endswith(":Subnet") and "public" not in state["urn"]]
    assert len(private) == 3
    assert all(subnet["mapPublicIpOnLaunch"] is False for subnet in private)
    assert "aws:eks/cluster:Cluster" in [state["type"] for state in steps]


@together
def test_the_launch_template_has_one_efa_interface(steps: Steps) -> None:
    (template,) = [state["inputs"] for state in steps if state["urn"].endswith("launchTemplate:LaunchTemplate::gpu")]
    assert [interface["interfaceType"] for interface in template["networkInterfaces"]] == ["efa"]


@together
def test_every_kubernetes_resource_goes_with_the_cluster(steps: Steps) -> None:
    """The engine hands `deletedWith` down from a component to its children: this is what the program relies on."""
    inside = [state for state in steps if state["type"].startswith("kubernetes:")]
    assert len(inside) == 13
    assert all("eks:index:Cluster" in state.get("deletedWith", "") for state in inside)


VIOLATIONS: Mapping[str, tuple[str, str, str, str]] = {
    # family: file, what is there, what breaks it, the policy that says no
    "zone": (
        "infra/network.py",
        'self._subnet(f"gpu-{args.gpu_zone}", args.gpu_zone,',
        'self._subnet(f"gpu-{args.gpu_zone}", args.control_plane_zones[0],',
        "one-gpu-zone",
    ),
    "placement": ("infra/gpu_nodes.py", 'strategy="cluster"', 'strategy="spread"', "cluster-placement-group"),
    "efa": ("infra/efa_security_group.py", ", aws.vpc.SecurityGroupEgressRule)", ",)", "efa-security-group"),
    "network": (
        "infra/network.py",
        "map_public_ip_on_launch=False",
        "map_public_ip_on_launch=True",
        "private-node-subnets",
    ),
    "exposure": (
        "workloads/ray_cluster.py",
        '"serviceType": "ClusterIP"',
        '"serviceType": "LoadBalancer"',
        "nothing-exposed",
    ),
    "identity": ("infra/nodes.py", "http_put_response_hop_limit=1", "http_put_response_hop_limit=2", "imds-v2"),
    "workload": ("workloads/ray_cluster.py", '"num-gpus": str(spec.worker_gpus)', '"num-gpus": "1"', "ray-requests"),
}


@pytest.mark.parametrize("family", VIOLATIONS)
def test_a_violation_of_each_family_fails_the_preview(family: str, tmp_path: Path) -> None:
    name, there, broken, policy = VIOLATIONS[family]
    program = copy_program(tmp_path / "program")
    source = (program / name).read_text()
    assert source.count(there) == 1, f"{name} no longer says {there!r}"
    (program / name).write_text(source.replace(there, broken))
    done = preview(tmp_path / "state", directory=program)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"[mandatory]  {policy}" in done.stdout, done.stdout


def test_an_image_without_digest_fails_every_stack_but_dev_and_rehearsal(tmp_path: Path) -> None:
    done = preview(tmp_path / "state", "--stack", "us-west-2")
    assert done.returncode == 1
    assert "[mandatory]  image-digest " in done.stdout


def test_wrong_settings_stop_before_the_engine_starts_with_one_line_each(tmp_path: Path) -> None:
    program = copy_program(tmp_path / "program")
    file = program / "Pulumi.rehearsal.yaml"
    wrong = "  efa-ray-train:gpuNodeCount: 0\n  efa-ray-train:gpuNodecount: 2\n"
    file.write_text(file.read_text().replace("us-east-2b", "us-west-2b") + wrong)
    done = preview(tmp_path / "state", directory=program)
    assert done.returncode == 2
    said = done.stdout + done.stderr
    for line in (
        "gpuNodecount: found a key that does not exist; allowed: gpuNodeCount comes closest;",
        "gpuAvailabilityZone: found 'us-west-2b'; allowed: a zone of us-east-2",
        "gpuNodeCount: found 0; allowed: integer >= 1;",
    ):
        assert line in said, said
    assert "Traceback" not in said
