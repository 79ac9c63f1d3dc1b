"""The section `data`."""

from typing import Any

import pytest
from pydantic import ValidationError

from workloads.train.data.config import DataConfig


@pytest.mark.parametrize("source", ["builtin", "synthetic", "/fsx/data/*.jsonl", "s3://bucket/prefix/", "s3://bucket"])
def test_a_source_is_known_by_its_form(source: str) -> None:
    assert DataConfig(source=source).problems() == []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"source": "data/a.jsonl"},
            "data.source: found 'data/a.jsonl'; allowed: builtin, synthetic, an absolute path or glob",
        ),
        ({"source": "gs://bucket/a"}, "data.source: found 'gs://bucket/a'; "),
        ({"source": "s3://B/a"}, "data.source: found 's3://B/a'; "),
        (
            {"source": "synthetic", "format": "tokens"},
            "data.format: found 'tokens' with data.source=synthetic; allowed: text",
        ),
        ({"cache_path": "cache"}, "data.cache_path: found 'cache'; allowed: an absolute path"),
    ],
)
def test_what_does_not_go_together_is_one_line(values: dict[str, Any], words: str) -> None:
    (line,) = DataConfig(**values).problems()
    assert line.startswith(words)


def test_all_is_said_together() -> None:
    assert len(DataConfig(source="a", cache_path="b").problems()) == 2


@pytest.mark.parametrize(
    "values",
    [
        {"sequence_length": 7},
        {"held_out": 0.6},
        {"held_out": -0.1},
        {"seed": -1},
        {"seed": 1 << 63},
        {"preparation_timeout": 0},
        {"format": "parquet"},
        {"rows": 3},
        {"tokenizer": ""},
    ],
    ids=str,
)
def test_a_wrong_value_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        DataConfig(**values)
