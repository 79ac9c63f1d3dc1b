"""The command line: what it takes, and every wrong argument named at once."""

import pytest

from workloads.train.__main__ import main
from workloads.train.errors import UsageError
from workloads.train.options import parse

GOOD = {
    "--model": "tiny-qwen2",
    "--storage-path": "s3://bucket/checkpoints",
    "--run-name": "train-07ab53a3d8",
    "--num-nodes": "2",
    "--gpus-per-node": "4",
    "--network": "efa",
}


def words(**changes: str | None) -> list[str]:
    values: dict[str, str | None] = {**GOOD, **{f"--{key.replace('_', '-')}": value for key, value in changes.items()}}
    return [f"{key}={value}" for key, value in values.items() if value is not None]


def refused(arguments: list[str]) -> list[str]:
    with pytest.raises(UsageError) as caught:
        parse(arguments)
    assert caught.value.exit_code == 2
    return str(caught.value).splitlines()


def test_a_rank_drives_a_gpu_unless_said_otherwise() -> None:
    options = parse(words())
    assert (options.device, options.ranks_per_node, options.world_size) == ("cuda", 4, 8)
    assert options.fail_at_step is None


def test_one_rank_of_a_node_takes_all_its_gpus_for_a_rehearsal() -> None:
    options = parse(words(device="cpu", ranks_per_node="1", steps="20"))
    assert (options.world_size, options.gpus_per_node, options.steps) == (2, 4, 20)


@pytest.mark.parametrize("path", ["s3://bucket/a/", "s3://bucket", "/fsx/a", "/"])
def test_checkpoints_lie_below_the_name_of_the_run(path: str) -> None:
    assert parse(words(storage_path=path)).storage_uri == f"{path.rstrip('/')}/train-07ab53a3d8"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"model": "Qwen/Qwen2.5-1.5B"},
            "--model: found 'Qwen/Qwen2.5-1.5B'; allowed: tiny-qwen2; training of other models is not part of this version",
        ),
        ({"model": None}, "--model: found nothing; "),
        (
            {"storage_path": "checkpoints"},
            "--storage-path: found 'checkpoints'; allowed: s3://BUCKET/PREFIX or an absolute path",
        ),
        ({"storage_path": "s3://"}, "--storage-path: found 's3://'; "),
        ({"storage_path": "gs://bucket/a"}, "--storage-path: found 'gs://bucket/a'; "),
        ({"run_name": "a/b"}, "--run-name: found 'a/b'; "),
        ({"run_name": ".."}, "--run-name: found '..'; "),
        ({"num_nodes": "0"}, "--num-nodes: found '0'; allowed: a whole number of at least 1"),
        ({"num_nodes": "two"}, "--num-nodes: found 'two'; "),
        ({"gpus_per_node": "-4"}, "--gpus-per-node: found '-4'; "),
        (
            {"ranks_per_node": "3", "device": "cpu"},
            "--ranks-per-node: found 3; allowed: a divisor of --gpus-per-node, 4",
        ),
        (
            {"ranks_per_node": "2"},
            "--ranks-per-node: found 2; allowed: 4, as --gpus-per-node: with --device=cuda a rank drives one GPU",
        ),
        ({"network": "ethernet"}, "--network: found 'ethernet'; allowed: efa or tcp"),
        ({"device": "tpu"}, "--device: found 'tpu'; allowed: cpu or cuda"),
        ({"steps": "1.5"}, "--steps: found '1.5'; "),
        ({"checkpoint_every": "0"}, "--checkpoint-every: found '0'; "),
        ({"max_restarts": "-1"}, "--max-restarts: found '-1'; allowed: a whole number of at least 0"),
        ({"fail_at_step": "0"}, "--fail-at-step: found '0'; "),
        ({"epochs": "3"}, "--epochs=3: unknown argument; see --help"),
        ({"step": "3"}, "--step=3: unknown argument; see --help"),
    ],
    ids=str,
)
def test_a_wrong_argument_is_one_line(change: dict[str, str | None], line: str) -> None:
    (found,) = refused(words(**change))
    assert found.startswith(line)


def test_wrong_arguments_are_said_together() -> None:
    found = refused(words(model="other", steps="0", device="cpu", ranks_per_node="3", epochs="1"))
    assert [line.partition(":")[0] for line in found] == ["--model", "--steps", "--ranks-per-node", "--epochs=1"]


def test_nothing_at_all_names_every_argument_that_is_needed() -> None:
    assert {line.partition(":")[0] for line in refused([])} == set(GOOD)


def test_a_missing_value_is_a_usage_error() -> None:
    assert refused([*words(), "--steps"]) == ["argument --steps: expected one argument; see --help"]


def test_the_program_prints_one_line_each_and_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(model="Qwen/Qwen2.5-1.5B", num_nodes="0")) == 2
    printed = capsys.readouterr().out.splitlines()
    assert [line[:14] for line in printed] == ["train: --model", "train: --num-n"]
