"""Model shapes by name: a few that need no download, and those of any configuration that can be had."""

import sys
from pathlib import Path
from typing import Final

from ..hub import CONFIG, fetch
from ..model_shape import BUILT_IN, ModelShape, shape_of

_KEY: Final = "--model"
SHAPES: Final = {
    # https://huggingface.co/Qwen/Qwen2.5-1.5B/blob/main/config.json
    "qwen2.5-1.5b": ModelShape(
        num_layers=28,
        hidden_size=1536,
        num_heads=12,
        num_kv_heads=2,
        head_dim=128,
        intermediate_size=8960,
        vocab_size=151_936,
        tied=True,
    ),
    # https://huggingface.co/Qwen/Qwen2.5-7B/blob/main/config.json
    "qwen2.5-7b": ModelShape(
        num_layers=28,
        hidden_size=3584,
        num_heads=28,
        num_kv_heads=4,
        head_dim=128,
        intermediate_size=18_944,
        vocab_size=152_064,
        tied=False,
    ),
    # https://huggingface.co/meta-llama/Llama-3.1-8B/blob/main/config.json
    "llama-3.1-8b": ModelShape(
        num_layers=32,
        hidden_size=4096,
        num_heads=32,
        num_kv_heads=8,
        head_dim=128,
        intermediate_size=14_336,
        vocab_size=128_256,
        tied=False,
    ),
}
"""Shapes that need no download."""


def shape_by_name(name: str) -> ModelShape:
    """Return the shape of a name in `SHAPES` or `BUILT_IN`, of a folder, or of a Hugging Face id or S3 prefix, which is downloaded.

    Raises:
        UsageError: there is no such configuration, or it is not of a model that this program trains.
        StoreError: it could not be downloaded.
    """
    if name.lower() in SHAPES:
        return SHAPES[name.lower()]
    if (described := BUILT_IN.get(name)) is not None:
        return shape_of(described, _KEY)
    # Imported here: it loads torch, which the names above do without.
    from ..model import read_config

    if (folder := Path(name)).is_dir():
        return shape_of(read_config(folder, _KEY), _KEY)
    found = fetch(name, "main", run="plan", patterns=CONFIG, say=_on_stderr)
    return shape_of(read_config(found.folder, _KEY), _KEY)


def _on_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
