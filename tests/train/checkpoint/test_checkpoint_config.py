"""The settings of checkpoints."""

import pytest
from pydantic import ValidationError

from workloads.train.checkpoint.config import CheckpointConfig


def test_what_is_left_out_is_good() -> None:
    assert CheckpointConfig().problems() == []


@pytest.mark.parametrize(
    "wrong",
    [{"every": 0}, {"keep": 0}, {"streams": 65}, {"when_busy": "hope"}, {"max_failures": 0}, {"kept": 2}],
    ids=str,
)
def test_wrong_values_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        CheckpointConfig.model_validate(wrong)


def test_a_relative_local_path_is_said() -> None:
    assert CheckpointConfig(local_path="nvme").problems() == [
        "checkpoint.local_path: found 'nvme'; allowed: an absolute path on every node; "
        "name a directory of the node's local disk, or leave it out"
    ]
