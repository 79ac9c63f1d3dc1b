"""Write a safetensors file tensor by tensor: its header needs names, types and shapes alone, so no second copy of a model is held.

Format: https://huggingface.co/docs/safetensors/index#format (eight bytes of length, a JSON header, then the tensors end to end).
"""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import torch

from .manifest import File

_NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}
_ALIGNMENT = 8


def num_bytes(shape: Sequence[int], dtype: torch.dtype) -> int:
    """Return the bytes of a tensor."""
    return math.prod(shape) * dtype.itemsize


class SafetensorsFile:
    """One file under way; `add` takes the tensors in the order of `shapes`. Raises OSError where the disk refuses."""

    def __init__(self, path: Path, shapes: Mapping[str, Sequence[int]], dtype: torch.dtype) -> None:
        self._path, self._dtype = path, dtype
        self._open: BinaryIO = path.open("wb")
        self._digest = hashlib.sha256()
        header: dict[str, object] = {"__metadata__": {"format": "pt"}}
        at = 0
        for name, shape in shapes.items():
            end = at + num_bytes(shape, dtype)
            header[name] = {"dtype": _NAMES[dtype], "shape": list(shape), "data_offsets": [at, end]}
            at = end
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % _ALIGNMENT)
        self._write(len(text).to_bytes(8, "little"))
        self._write(text)

    def add(self, tensor: torch.Tensor) -> None:
        """Append the next tensor, converted."""
        flat = tensor.detach().to(device="cpu", dtype=self._dtype).contiguous().reshape(-1)
        self._write(flat.view(torch.uint8).numpy().data)

    def close(self) -> File:
        """End the file and return what it is."""
        size = self._open.tell()
        self._open.close()
        return File(name=self._path.name, bytes=size, sha256=self._digest.hexdigest())

    def _write(self, data: bytes | memoryview) -> None:
        self._open.write(data)
        self._digest.update(data)
