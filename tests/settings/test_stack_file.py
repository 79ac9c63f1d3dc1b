"""`python -m settings`, and Pulumi.yaml beside the code."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from settings.__main__ import main
from settings.schema import keys

ROOT = Path(__file__).parents[2]
DECLARED: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]


def test_pulumi_yaml_declares_every_key_in_order() -> None:
    assert list(DECLARED) == list(keys())


@pytest.mark.parametrize("name", list(keys()))
def test_pulumi_yaml_and_settings_agree(name: str) -> None:
    key, declared = keys()[name], DECLARED[name]
    expected: dict[str, Any] = {"type": key.pulumi_type, "description": key.description}
    if key.pulumi_type == "array":
        expected["items"] = {"type": "string"}
    if not key.required:
        expected["default"] = list(key.default) if key.pulumi_type == "array" else key.default
    assert declared == expected


def test_good_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(ROOT / "Pulumi.dev.yaml")]) == 0
    assert capsys.readouterr().out.endswith("Pulumi.dev.yaml: good\n")


def test_every_problem_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "Pulumi.bad.yaml"
    file.write_text("config:\n  aws:region: us-east-2\n  efa-ray-train:gpuNodeCount: two\n  efa-ray-train:nothing: 1\n")
    assert main([str(file)]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "nothing",
        "controlPlaneAvailabilityZones",
        "apiAccess",
        "gpuAvailabilityZone",
        "gpuNodeCount",
    ]


def test_json_is_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "Pulumi.bad.yaml"
    file.write_text("config:\n  aws:region: us-east-2\n  efa-ray-train:gpuNodeCount: two\n")
    assert main([str(file), "--json"]) == 2
    said = json.loads(capsys.readouterr().out)
    assert (said["stack"], said["ok"], len(said["problems"])) == ("bad", False, 4)
    assert said["problems"][-1]["key"] == "gpuNodeCount"
    assert main([str(ROOT / "Pulumi.rehearsal.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("config: [", "found"),
        ("config:\n", "found no `config:` map"),
        ("[]", "found no `config:` map"),
    ],
)
def test_unreadable_file_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, said: str
) -> None:
    file = tmp_path / "Pulumi.bad.yaml"
    if text is not None:
        file.write_text(text)
    assert main([str(file)]) == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert said in line


def test_a_key_that_is_no_text_is_no_crash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "Pulumi.bad.yaml"
    file.write_text("config:\n  1: 2\n  aws:region: us-east-2\n")
    assert main([str(file)]) == 2
    assert len(capsys.readouterr().out.splitlines()) == 3, "the required keys are missing, each on its line"
