"""The command `plan --what-if`: numbers without a GPU, each with its terms and its sources."""

import json
from pathlib import Path
from typing import Any

import pytest

from workloads.train.errors import UsageError
from workloads.train.plan.command import main
from workloads.train.plan.shapes import SHAPES, shape_by_name


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["--what-if", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def refused(*arguments: str) -> list[str]:
    with pytest.raises(UsageError) as caught:
        main(arguments)
    assert caught.value.exit_code == 2
    return str(caught.value).splitlines()


def test_two_g6_12xlarge_reach_the_target_and_have_room_for_the_stretch(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = told(capsys, "--nodes=2", "--instance=g6.12xlarge")["rows"]
    found = row["plan"]["prediction"]
    assert row["global_batch_tokens"] == 262_144
    assert 28_000 <= found["tokens_per_second"] < 36_000 < row["ceiling_tokens_per_second"] < 40_000
    assert found["mfu"] == pytest.approx(0.307, abs=0.003)
    assert found["step_seconds"] == pytest.approx(sum(term["value"] for term in found["time"]))
    assert {term["name"] for term in found["time"]} >= {"model compute", "all-reduce, exposed", "optimizer"}
    assert {fact["mark"] for fact in row["facts"]} == {"measured", "datasheet", "assumed"}
    assert all(fact["source"] for fact in row["facts"])


def test_the_usual_question_is_asked_of_2_4_16_and_64_nodes_of_both(capsys: pytest.CaptureFixture[str]) -> None:
    rows = told(capsys)["rows"]
    assert [(row["instance"], row["nodes"]) for row in rows] == [
        (name, nodes) for name in ("g6.12xlarge", "p5.48xlarge") for nodes in (2, 4, 16, 64)
    ]
    rates = [row["plan"]["prediction"]["tokens_per_second"] for row in rows]
    for first in (0, 4):
        two, sixty_four = rates[first], rates[first + 3]
        assert 0.9 < sixty_four / two / 32 < 1.02, "weak scaling"


def test_a_global_batch_that_is_given_is_that_of_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    rows = told(capsys, "--global-batch-tokens=524288", "--nodes=2,4,16", "--instance=g6.12xlarge")["rows"]
    assert {row["global_batch_tokens"] for row in rows} == {524_288}
    (line,) = refused("--what-if", "--global-batch-tokens=524288", "--nodes=64", "--instance=p5.48xlarge")
    assert line.startswith("global_batch_tokens: found 524288; allowed: a multiple of 1048576")


def test_the_table_shows_every_term_and_every_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--what-if", "--nodes=2", "--instance=g6.12xlarge"]) == 0
    text = capsys.readouterr().out
    for words in (
        "2 x g6.12xlarge",
        "tokens/s",
        "model compute",
        "all-reduce, root's tail",
        "Adam moments",
        "chunk of logits",
        "= step",
        "= peak",
        "[measured]",
        "[datasheet]",
        "[assumed]",
        "https://github.com/zzc0721/torch-performance-test-data/issues/120",
    ):
        assert words in text
    assert max(len(line) for line in text.splitlines()) < 260


def test_a_model_that_does_not_fit_is_a_row_that_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--model=llama-3.1-8b", "--nodes=2,4", "--instance=g6.12xlarge")
    two, four = told(capsys, *arguments)["rows"]
    assert two["plan"] is None
    assert two["refused"].startswith("memory: found 27.")
    assert "take 3 nodes (now 2)" in two["refused"]
    assert four["plan"] is not None
    assert main(["--what-if", *arguments]) == 0
    text = capsys.readouterr().out
    assert "does not fit" in text
    assert "2 x g6.12xlarge: memory: found 27." in text


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "--what-if: found nothing; allowed: --what-if"),
        (("--what-if", "--nodes=2,zero"), "--nodes: found '2,zero'; allowed: whole numbers of at least 1"),
        (("--what-if", "--nodes=0"), "--nodes: found '0'; "),
        (("--what-if", "--nodes="), "--nodes: found ''; "),
        (("--what-if", "--instance=g6.2xlarge"), "--instance: found 'g6.2xlarge'; allowed: g5.12xlarge, "),
        (("--what-if", "--sequence-length=1,2"), "--sequence-length: found '1,2'; allowed: a whole number"),
        (("--what-if", "--global-batch-tokens=many"), "--global-batch-tokens: found 'many'; "),
        (("--what-if", "--gpus=8"), "--gpus=8: unknown argument; see --help"),
    ],
    ids=str,
)
def test_a_wrong_argument_is_one_line(arguments: tuple[str, ...], line: str) -> None:
    (found,) = refused(*arguments)
    assert found.startswith(line)


def test_wrong_arguments_are_said_together() -> None:
    found = refused("--nodes=0", "--instance=a,g6.12xlarge,b")
    assert [line.partition(":")[0] for line in found] == ["--what-if", "--nodes", "--instance", "--instance"]


@pytest.mark.parametrize(
    ("name", "billions"), [("qwen2.5-1.5b", 1.544), ("qwen2.5-7b", 7.616), ("llama-3.1-8b", 8.030)]
)
def test_built_in_shapes_have_the_published_number_of_parameters(name: str, billions: float) -> None:
    assert SHAPES[name].num_parameters / 1e9 == pytest.approx(billions, abs=0.001)
    assert shape_by_name(name.upper()) == SHAPES[name]


def test_a_model_is_a_folder_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    described = {
        "model_type": "qwen2",
        "num_hidden_layers": 28,
        "hidden_size": 1536,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "intermediate_size": 8960,
        "vocab_size": 151_936,
        "tie_word_embeddings": True,
    }
    (tmp_path / "config.json").write_text(json.dumps(described))
    assert shape_by_name(str(tmp_path)) == SHAPES["qwen2.5-1.5b"]
    assert len(told(capsys, f"--model={tmp_path}", "--nodes=2")["rows"]) == 2
    (tmp_path / "config.json").write_text(json.dumps({**described, "model_type": "mamba"}))
    (line,) = refused("--what-if", f"--model={tmp_path}")
    assert line.startswith("--model: model_type in its configuration: found 'mamba'; ")


def test_a_model_of_the_program_itself_needs_no_folder() -> None:
    assert shape_by_name("tiny-qwen2").num_layers > 0
