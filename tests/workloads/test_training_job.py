"""The command of a run, read by the program that it starts."""

import json
import shlex
from dataclasses import replace

from tests.workloads.test_manifests import JOB
from workloads.train.cli import parse
from workloads.training_job import entrypoint, job_name, runtime_env

SPEC = replace(
    JOB,
    arguments=[
        "--model=tiny-qwen2", "--num-nodes=2", "--gpus-per-node=4", "--network=efa",
        "--device=cpu", "--ranks-per-node=1", "--steps=20",
    ],
)  # fmt: skip


def test_the_program_takes_what_the_stack_gives_it() -> None:
    words = shlex.split(entrypoint(SPEC, "s3://bucket", "s3://own"))
    options = parse(words[words.index("train") + 1 :])
    assert (options.run.world_size, options.train.steps, options.transport.expect) == (2, 20, "efa")
    assert options.run.storage_uri == f"s3://bucket/checkpoints/{job_name(SPEC)}", "as the output checkpointUri says"
    assert options.run.record_uri == f"s3://own/runs/{job_name(SPEC)}", "as the output runRecordUri says"


def test_the_record_is_told_what_runs() -> None:
    spec = replace(SPEC, image="repository/image@sha256:abc")
    assert json.loads(runtime_env(spec, "s3://b/code.zip")) == {
        "working_dir": "s3://b/code.zip",
        "env_vars": {"TRAIN_CODE_SHA256": SPEC.code_sha256, "TRAIN_IMAGE_DIGEST": "sha256:abc"},
    }
    assert "TRAIN_IMAGE_DIGEST" not in runtime_env(SPEC, "s3://b/code.zip"), "an image without a digest"


def test_another_run_has_checkpoints_of_its_own() -> None:
    again = replace(SPEC, run_id="again")
    assert job_name(again) in entrypoint(again, "s3://bucket", "s3://own")
    assert job_name(SPEC) not in entrypoint(again, "s3://bucket", "s3://own")
