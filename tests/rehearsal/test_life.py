"""The main job, as a person types it: up, a look, up again, down; and what stands in between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rehearsal.aws_client import aws_client
from rehearsal.drills.stage import QUICK_JOB, Stage
from rehearsal.lifecycle.job import job_result, run_output_command
from rehearsal.world.record import World
from tests.rehearsal.stage_support import TOGETHER, shared_stage, stage

__all__ = ["shared_stage", "stage"]

pytestmark = TOGETHER


def loss_fell(result: dict[str, Any]) -> bool:
    return result["last_loss"] < result["first_loss"]


def stored(world: World, uri: str) -> dict[str, Any]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    s3: Any = aws_client(world.aws_endpoint, "us-east-2", "s3")
    return json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())


def test_a_whole_life(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.train(*QUICK_JOB, "--steps=20", "--checkpoint-every=10")
    up = stage.up()
    up.must(0)
    outputs, result = up.document["outputs"], up.document["result"]
    assert outputs["jobStatus"] == "SUCCEEDED"
    assert (result["status"], result["steps"]) == ("succeeded", 20)
    assert loss_fell(result)
    assert up.document["causes"] == []

    # Devices are what their plugins made of them, and a worker has them.
    nodes = json.loads(stage.kubectl("get", "nodes", "-o", "json"))["items"]
    allocatable = [
        (
            node["status"]["allocatable"].get("nvidia.com/gpu"),
            node["status"]["allocatable"].get("vpc.amazonaws.com/efa"),
        )
        for node in nodes
    ]
    assert sorted(allocatable, key=str) == [("4", "1"), ("4", "1"), (None, None)]
    pods = json.loads(stage.kubectl("get", "pods", "-n", "ray-train", "-o", "json"))["items"]
    zones = {node["metadata"]["name"]: node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes}
    workers = [pod for pod in pods if pod["metadata"]["labels"]["ray.io/node-type"] == "worker"]
    assert {zones[pod["spec"]["nodeName"]] for pod in workers} == {outputs["gpuAvailabilityZone"]}
    assert len({pod["spec"]["nodeName"] for pod in workers}) == 2

    # What the outputs tell a person to type works as pasted.
    world = stage.world()
    for part, log in outputs["jobLogs"].items():
        told = run_output_command(world, log["command"])
        assert told.strip(), part
        if part == "driver":
            assert job_result(told) is not None
    assert "raycluster" in run_output_command(world, outputs["commands"]["verify"])

    # It has learned, and its record says so; it makes no claim about a network that was not there.
    record = stored(world, outputs["runRecordUri"])
    assert record["verdict"] == {"status": "valid", "reasons": []}
    assert record["facts"]["loss_after"] < record["facts"]["loss_before"]
    assert record["code"]["code_sha256"] in outputs["codeUri"]
    assert stored(world, outputs["transportReportUri"])["verdict"] == "gloo"

    # Nothing changes by itself, and what is there is what was asked for.
    job = stage.kubectl("get", "rayjob", "-A", "-o", "jsonpath={.items[*].metadata.uid}")
    for arguments in ((), ("--refresh",)):
        preview = stage.begin("preview", "--expect-no-changes", *arguments).end()
        preview.must(0)
    again = stage.up()
    again.must(0)
    assert set(again.document["changes"]) == {"same"}
    assert stage.kubectl("get", "rayjob", "-A", "-o", "jsonpath={.items[*].metadata.uid}") == job

    down = stage.down()
    down.must(0)
    assert down.document["left"] == {}
    assert down.document["changes"]["delete"] == again.document["changes"]["same"]
    assert not stage.kubectl("get", "nodes,rayclusters,rayjobs", "-A", "-o", "name")
    with capsys.disabled():
        print({**up.document["seconds"], "down": down.document["seconds"]})


def test_a_second_world_of_the_same_checkout_is_refused_and_the_first_left_alone(stage: Stage) -> None:
    run = stage.begin("up", "--scale", "3").end()
    run.must(2, "world: stands for stack rehearsal", "make rehearse-down")
    stage.world()


def test_nothing_to_take_down_is_said(tmp_path: Path, stage: Stage) -> None:
    environment = {**os.environ, "EFA_RAY_TRAIN_STATE": str(tmp_path / "state")}
    command = [sys.executable, "-m", "rehearsal", "down", "--json", "--directory", str(stage.program)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["left"] == {}
    assert "there was no world" in done.stderr
