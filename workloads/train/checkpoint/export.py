"""Export a model as a Hugging Face folder: config.json, safetensors with a tied weight once, the tokenizer's files.

Two sources: the sharded module of a run, gathered tensor by tensor, and a checkpoint, read tensor by tensor without a GPU.
"""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, cast

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.tensor import DTensor

from ..agreement import first_rank
from ..errors import StoreError
from .local import base
from .manifest import File, Manifest, describe
from .reading import Cache, DamagedError, Reading
from .safetensors_file import SafetensorsFile, num_bytes
from .state import MODEL, model_state
from .store import Store

Precision = Literal["bfloat16", "float32"]
LARGEST = 5_000_000_000
"""Bytes of a safetensors file, above which there are several: each lies on the local disk before it goes to the store."""
CONFIG, INDEX = "config.json", "model.safetensors.index.json"
_KEPT = (
    CONFIG,
    "generation_config.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
)
Shapes = Mapping[str, tuple[int, ...]]


def model_files(folder: Path) -> dict[str, Path]:
    """Return the files of a Hugging Face folder that describe model and tokenizer and are no weights, by name."""
    return {name: folder / name for name in _KEPT if (folder / name).is_file()}


def export_module(
    module: torch.nn.Module,
    files: Mapping[str, Path],
    store: Store,
    precision: Precision,
    local_path: str | None = None,
) -> tuple[File, ...]:
    """Export the module that is trained; all ranks call it, and rank 0 writes. Return what was written.

    A GPU holds one whole tensor beside its shards, rank 0's host one more.

    Raises:
        StoreError: on all ranks, when rank 0 cannot write.
    """
    tensors = model_state(module)
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if dist.get_rank() == 0:
        left = iter(tensors)

        def gathered(name: str) -> torch.Tensor:
            # The others gather in this order too.
            assert next(left) == name  # noqa: S101 -- an error of this module
            return _whole(tensors[name])

        failure: StoreError | None = None
        written: tuple[File, ...] = ()
        try:
            written = _write(shapes, gathered, files, store, precision, local_path)
        except StoreError as error:
            failure = error
            for name in left:
                _whole(tensors[name])
    else:
        failure, written = None, ()
        for tensor in tensors.values():
            _whole(tensor)

    def said() -> tuple[File, ...]:
        if failure is not None:
            raise failure
        return written

    return first_rank(said)


def export_checkpoint(
    source: Store, manifest: Manifest, target: Store, precision: Precision, local_path: str | None = None
) -> tuple[File, ...]:
    """Export a checkpoint, on a machine without GPUs or other ranks; return what was written.

    Only files with weights are fetched, a third of the bytes; memory holds one tensor at a time.

    Raises:
        StoreError: a store or the local disk refuses, or the checkpoint is damaged or has no config.json.
    """
    cache = Cache(source, manifest, local_path)
    uri = f"{source.uri}/{manifest.folder}"
    names = [
        name.removeprefix("model/") for name in (file.name for file in manifest.files) if name.startswith("model/")
    ]
    if CONFIG not in names:
        raise StoreError(
            f"checkpoint {uri}: has no model/{CONFIG}; allowed: one with the model's files; export from the run"
        )
    try:
        cache.fetch([f"model/{name}" for name in names])
        reading = Reading(cache)

        def read(name: str) -> torch.Tensor:
            entry = reading.metadata.state_dict_metadata[f"{MODEL}.{name}"]
            dtype = cast(TensorStorageMetadata, entry).properties.dtype
            tensor = torch.empty(reading.shapes[name], dtype=dtype)
            reading.prepare({MODEL: {name: tensor}}, streams=1)()
            return tensor

        files = {name: cache.path / "model" / name for name in names}
        return _write(reading.shapes, read, files, target, precision, local_path)
    except DamagedError as error:
        raise StoreError(f"checkpoint {uri}: {error.kind}: {error}; take another one") from error
    finally:
        cache.remove()


def _write(
    shapes: Shapes,
    get: Callable[[str], torch.Tensor],
    files: Mapping[str, Path],
    store: Store,
    precision: Precision,
    local_path: str | None,
) -> tuple[File, ...]:
    dtype = cast(torch.dtype, getattr(torch, precision))
    parts = _parts(shapes, dtype)
    written: list[File] = []
    place: dict[str, str] = {}
    where = base(local_path)
    try:
        where.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="train-export-", dir=where) as scratch:
            local = Path(scratch)
            for number, part in enumerate(parts, 1):
                name = "model.safetensors" if len(parts) == 1 else f"model-{number:05}-of-{len(parts):05}.safetensors"
                opened = SafetensorsFile(local / name, part, dtype)
                for tensor in part:
                    opened.add(get(tensor))
                    place[tensor] = name
                written.append(opened.close())
                store.put(local / name, name)
                (local / name).unlink()
            if len(parts) > 1:
                total = sum(num_bytes(shape, dtype) for shape in shapes.values())
                index = {"metadata": {"total_size": total}, "weight_map": place}
                written.append(_put(store, local / INDEX, json.dumps(index, indent=2)))
            for name, path in files.items():
                if name != CONFIG:
                    store.put(path, name)
                    written.append(describe(path, name))
            # The last one: without it the folder is no model.
            written.append(_put(store, local / CONFIG, _config(files[CONFIG], precision)))
    except OSError as error:
        raise StoreError(
            f"local directory {where}: cannot write an export: {error}; set checkpoint.local_path to another place"
        ) from error
    return tuple(written)


def _put(store: Store, path: Path, text: str) -> File:
    path.write_text(text, encoding="utf-8")
    store.put(path, path.name)
    return describe(path)


def _config(path: Path, precision: Precision) -> str:
    config = cast(dict[str, object], json.loads(path.read_text(encoding="utf-8")))
    # Programs older than transformers 5 know the second name alone.
    config |= {"dtype": precision, "torch_dtype": precision}
    return json.dumps(config, indent=2, sort_keys=True) + "\n"


def _parts(shapes: Shapes, dtype: torch.dtype) -> list[dict[str, tuple[int, ...]]]:
    """Divide tensors among files, in their order."""
    parts: list[dict[str, tuple[int, ...]]] = [{}]
    filled = 0
    for name, shape in shapes.items():
        size = num_bytes(shape, dtype)
        if parts[-1] and filled + size > LARGEST:
            parts.append({})
            filled = 0
        parts[-1][name] = shape
        filled += size
    return parts


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
