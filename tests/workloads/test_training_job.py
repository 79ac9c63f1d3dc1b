"""The command of a run, read by the program that it starts."""

import shlex
from dataclasses import replace

from tests.workloads.test_manifests import JOB
from workloads.train.options import parse
from workloads.training_job import entrypoint, job_name

SPEC = replace(
    JOB,
    arguments=[
        "--model=tiny-qwen2", "--num-nodes=2", "--gpus-per-node=4", "--network=efa",
        "--device=cpu", "--ranks-per-node=1", "--steps=20",
    ],
)  # fmt: skip


def test_the_program_takes_what_the_stack_gives_it() -> None:
    words = shlex.split(entrypoint(SPEC, "s3://bucket"))
    options = parse(words[words.index("train") + 1 :])
    assert (options.world_size, options.steps, options.network) == (2, 20, "efa")
    assert options.storage_uri == f"s3://bucket/checkpoints/{job_name(SPEC)}", "as the output checkpointUri says"


def test_another_run_has_checkpoints_of_its_own() -> None:
    again = replace(SPEC, run_id="again")
    assert job_name(again) in entrypoint(again, "s3://bucket")
    assert job_name(SPEC) not in entrypoint(again, "s3://bucket")
