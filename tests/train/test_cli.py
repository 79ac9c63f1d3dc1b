"""The command line and the configuration: what they take, and everything that is wrong named at once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from workloads.train.__main__ import main
from workloads.train.cli import parse
from workloads.train.config import from_json, keys
from workloads.train.errors import UsageError

GOOD = {
    "--model": "tiny-qwen2",
    "--storage-path": "s3://bucket/checkpoints",
    "--run-name": "train-07ab53a3d8",
    "--num-nodes": "2",
    "--gpus-per-node": "4",
    "--network": "efa",
}
NEEDED = {
    "run": {"name": "a", "storage_path": "/a", "num_nodes": 2, "gpus_per_node": 4},
    "model": {"name": "tiny-qwen2"},
}


def words(*more: str, **changes: str | None) -> list[str]:
    values: dict[str, str | None] = {**GOOD, **{f"--{key.replace('_', '-')}": value for key, value in changes.items()}}
    return [*(f"{key}={value}" for key, value in values.items() if value is not None), *more]


def refused(arguments: list[str]) -> list[str]:
    with pytest.raises(UsageError) as caught:
        parse(arguments, {})
    assert caught.value.exit_code == 2
    return str(caught.value).splitlines()


def test_a_rank_drives_a_gpu_unless_said_otherwise() -> None:
    run = parse(words(), {}).run
    assert (run.device, run.ranks, run.world_size) == ("cuda", 4, 8)


def test_the_words_that_the_stack_passes() -> None:
    config = parse(
        words(device="cpu", ranks_per_node="1", steps="20", checkpoint_every="5", max_restarts="1", fail_at_step="3"),
        {},
    )
    assert (config.run.world_size, config.run.gpus_per_node, config.train.steps) == (2, 4, 20)
    assert (config.checkpoint.every, config.run.max_restarts, config.transport.expect) == (5, 1, "efa")
    assert (config.fault.point, config.fault.action) == ("after-step-3", "raise")


@pytest.mark.parametrize("path", ["s3://bucket/a/", "s3://bucket", "/fsx/a", "/"])
def test_checkpoints_lie_below_the_name_of_the_run(path: str) -> None:
    assert parse(words(storage_path=path), {}).run.storage_uri == f"{path.rstrip('/')}/train-07ab53a3d8"


def test_a_model_of_the_hub_is_taken() -> None:
    assert parse(words(model="Qwen/Qwen2.5-1.5B"), {}).model.name == "Qwen/Qwen2.5-1.5B"


def test_keys_are_set_one_by_one() -> None:
    config = parse(
        words("--set", "optimizer.learning_rate=3e-4", "--set=train.compile=false", "--set=plan.micro_batch=null"), {}
    )
    assert (config.optimizer.learning_rate, config.compile, config.plan.micro_batch) == (3e-4, False, None)


def test_a_number_may_be_a_name() -> None:
    assert parse(words(run_name="123"), {}).run.name == "123"


def test_words_go_over_a_file_and_single_keys_over_words(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({**NEEDED, "train": {"steps": 1, "seed": 9}, "checkpoint": {"keep": 5}}))
    config = parse([f"--config={path}", "--steps=2", "--model=other/model", "--set=train.steps=3"], {})
    assert (config.train.steps, config.train.seed, config.checkpoint.keep) == (3, 9, 5)
    assert (config.run.name, config.model.name) == ("a", "other/model")


def test_torchrun_says_how_many_ranks_there_are() -> None:
    config = parse(
        words(num_nodes=None, gpus_per_node=None), {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "LOCAL_RANK": "1"}
    )
    assert (config.run.num_nodes, config.run.ranks) == (2, 4)


def test_json_is_a_configuration_and_back() -> None:
    config = from_json(json.dumps(NEEDED))
    assert from_json(config.model_dump_json()) == config
    assert config.global_batch_tokens == 8 * 2048 * 8


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (words(model=None), "--model: found nothing; allowed: a text that is not empty; set it"),
        (words(storage_path="checkpoints"), "--storage-path: found 'checkpoints'; allowed: s3://BUCKET/PREFIX or an absolute path; "),
        (words(storage_path="s3://"), "--storage-path: found 's3://'; "),
        (words(storage_path="gs://bucket/a"), "--storage-path: found 'gs://bucket/a'; "),
        (words(storage_path="~/results"), "--storage-path: found '~/results'; "),
        (words(run_name="a/b"), "--run-name: found 'a/b'; allowed: letters, digits, dots, dashes and underscores, 128 at most; "),
        (words(run_name=".."), "--run-name: found '..'; "),
        (words(num_nodes="0"), "--num-nodes: found '0'; allowed: a whole number of at least 1; "),
        (words(num_nodes="two"), "--num-nodes: found 'two'; "),
        (words(gpus_per_node="-4"), "--gpus-per-node: found '-4'; "),
        (words(ranks_per_node="3", device="cpu"), "--ranks-per-node: found 3; allowed: a divisor of run.gpus_per_node, 4; "),
        (words(ranks_per_node="2"), "--ranks-per-node: found 2; allowed: 4, as run.gpus_per_node: with run.device cuda a rank drives one GPU"),
        (words(network="ethernet"), "--network: found 'ethernet'; allowed: efa or tcp or any; "),
        (words(device="tpu"), "--device: found 'tpu'; allowed: cuda or cpu; "),
        (words(steps="1.5"), "--steps: found '1.5'; allowed: a whole number of at least 1; "),
        (words(checkpoint_every="0"), "--checkpoint-every: found '0'; "),
        (words(max_restarts="-1"), "--max-restarts: found '-1'; allowed: a whole number of at least 0; "),
        (words(fail_at_step="0"), "--fail-at-step: found '0'; allowed: a whole number of at least 1; "),
        (words(epochs="3"), "--epochs=3: unknown argument; see --help"),
        (words(step="3"), "--step=3: unknown argument; see --help"),
        (words("--set=steps=3"), "--set: found 'steps=3'; allowed: section.key=value; "),
        (words("--set=train.steps"), "--set: found 'train.steps'; allowed: section.key=value; "),
        (words("--set=train.step=3"), "train.step: unknown key; allowed: train.steps, train.global_batch_tokens, "),
        (words("--set=training.steps=3"), "training: unknown key; allowed: run, model, train, "),
        (words("--set=plan.micro_batch=[1"), "--set plan.micro_batch: found '[1': "),
        (words("--set=optimizer.learning_rate=inf"), "optimizer.learning_rate: found 'inf'; allowed: a number above 0; "),
        (words("--set=optimizer.learning_rate=0"), "optimizer.learning_rate: found '0'; allowed: a number above 0; "),
        (words("--set=optimizer.beta2=1"), "optimizer.beta2: found '1'; allowed: a number of at least 0 and below 1; "),
        (words("--set=precision.compute=fp16"), "precision.compute: found 'fp16'; allowed: bf16 or fp32; "),
        (words("--set=anomaly.action=pray"), "anomaly.action: found 'pray'; allowed: stop or skip; "),
        (words("--set=fault.point=soon"), "fault.point: found 'soon'; allowed: after-step-K "),
        (words("--set=fault.rank=8", fail_at_step="1"), "fault.rank: found 8; allowed: below 8, the number of ranks"),
        (
            words("--set=train.global_batch_tokens=100000"),
            "train.global_batch_tokens: found 100000; allowed: a multiple of 16384, data.sequence_length 2048 x 8 ranks; set 98304",
        ),
        (words("--config=/nowhere.json"), "--config: cannot read /nowhere.json: "),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_argument_is_one_line(arguments: list[str], line: str) -> None:
    (found,) = refused(arguments)
    assert found.startswith(line)


@pytest.mark.parametrize("text", ["{", "[]", '{"train": 3}'])
def test_a_file_that_is_no_configuration_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(text)
    (found,) = refused(words(f"--config={tmp_path}/run.json"))
    assert found.startswith(f"--config {tmp_path}/run.json: ")


def test_wrong_arguments_are_said_together() -> None:
    found = refused(words("--set=train.seed=x", steps="0", device="tpu", epochs="1"))
    assert {line.partition(":")[0] for line in found} == {"--epochs=1", "--steps", "--device", "train.seed"}


def test_what_does_not_go_together_is_said_together() -> None:
    found = refused(words("--set=fault.point=soon", "--set=train.global_batch_tokens=1", ranks_per_node="3"))
    assert [line.partition(":")[0] for line in found] == [
        "--ranks-per-node",
        "fault.point",
        "train.global_batch_tokens",
    ]


def test_nothing_at_all_names_every_argument_that_is_needed() -> None:
    assert {line.partition(":")[0] for line in refused([])} == GOOD.keys() - {"--network"}


def test_a_missing_value_is_a_usage_error() -> None:
    assert refused([*words(), "--steps"]) == ["argument --steps: expected one argument; see --help"]


def test_every_key_says_what_it_is_for() -> None:
    for key, (allowed, _, description) in keys().items():
        assert description, key
        assert allowed, key


def test_help_explains_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(["--help"])
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    assert all(f"  {key} (" in printed for key in keys())
    assert "--fail-at-step" in printed


def test_the_program_prints_one_line_each_and_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(device="tpu", num_nodes="0")) == 2
    printed = capsys.readouterr().out.splitlines()
    assert sorted(line[:14] for line in printed) == ["train: --devic", "train: --num-n"]


def test_wrong_arguments_are_said_before_torch_is_loaded() -> None:
    code = "import sys; from workloads.train.__main__ import main; print(main(['--steps=0']), 'torch' in sys.modules, 'ray' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "2 False False"
