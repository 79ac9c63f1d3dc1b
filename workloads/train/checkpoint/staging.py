"""Host memory into which a rank copies what it will write: made once, used by every save, pinned where a GPU copies into it."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, SupportsInt, cast

import torch
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import WriteItem

from .layout import num_bytes

_ALIGNMENT = 512
Data = torch.Tensor | io.BytesIO


@dataclass(frozen=True, slots=True)
class Staged:
    """A copy of a rank's shards in host memory, whole once `ready` returned."""

    data: Mapping[MetadataIndex, Data]
    copied: torch.cuda.Event | None
    """Recorded behind the copies of a GPU; None where they are done already."""

    def ready(self) -> None:
        """Wait for the copies; other threads run meanwhile."""
        if self.copied is not None:
            self.copied.synchronize()


class Staging:
    """The buffers for the items of one layout."""

    def __init__(self, items: Sequence[WriteItem], device: torch.device) -> None:
        tensors = [item for item in items if item.tensor_data is not None]
        starts = [0]
        for item in tensors:
            starts.append(starts[-1] + -(-num_bytes(item) // _ALIGNMENT) * _ALIGNMENT)
        # Filled, so that no page is made during a save.
        self._memory = torch.zeros(starts[-1], dtype=torch.uint8)
        self._items = items
        self._stream: torch.cuda.Stream | None = None
        self.pinned = False
        """Whether a GPU copies into it without stopping the host."""
        if device.type == "cuda" and self._memory.numel():
            # Not pin_memory=True, which rounds up to a power of two: up to twice the memory.
            status = _cuda().cudaHostRegister(self._memory.data_ptr(), self._memory.numel(), 0)
            self.pinned = int(status) == 0
            self._stream = torch.cuda.Stream(device)
        whole = self._memory.numpy()
        self._views = {
            # A storage of its own for each: a tensor inside a larger storage is copied once more before it is written.
            item.index: torch.frombuffer(whole, dtype=_dtype(item), count=_count(item), offset=start).view(_sizes(item))
            if _count(item)
            else torch.empty(_sizes(item), dtype=_dtype(item))
            for item, start in zip(tensors, starts, strict=False)
        }

    @property
    def bytes(self) -> int:
        """Return the size of the buffers."""
        return self._memory.numel()

    def copy(self, resolve: Callable[[WriteItem], Data]) -> Staged:
        """Copy every item; on a GPU the copies are only started, behind what the GPU has to do until now.

        The caller keeps what is copied from unchanged until `Staged.copied`.
        """
        if self._stream is None:
            return Staged({item.index: self._copied(item, resolve(item)) for item in self._items}, None)
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            data = {item.index: self._copied(item, resolve(item)) for item in self._items}
            copied = torch.cuda.Event()
            copied.record(self._stream)
        return Staged(data, copied)

    def close(self) -> None:
        """Give pinned memory back, when what was copied into it is there."""
        if self._stream is not None:
            self._stream.synchronize()
        if self.pinned:
            _cuda().cudaHostUnregister(self._memory.data_ptr())
            self.pinned = False

    def _copied(self, item: WriteItem, value: Data) -> Data:
        if isinstance(value, torch.Tensor):
            return self._views[item.index].copy_(value.detach(), non_blocking=self.pinned)
        return value


class _Cuda(Protocol):
    """The part of CUDA's runtime that is used here; a call returns 0 when it succeeded."""

    def cudaHostRegister(self, pointer: int, size: int, flags: int, /) -> SupportsInt: ...  # noqa: N802
    def cudaHostUnregister(self, pointer: int, /) -> SupportsInt: ...  # noqa: N802


def _cuda() -> _Cuda:
    return cast(_Cuda, torch.cuda.cudart())


def _dtype(item: WriteItem) -> torch.dtype:
    assert item.tensor_data is not None  # noqa: S101 -- only tensors get here
    return item.tensor_data.properties.dtype


def _sizes(item: WriteItem) -> torch.Size:
    assert item.tensor_data is not None  # noqa: S101 -- only tensors get here
    return item.tensor_data.chunk.sizes


def _count(item: WriteItem) -> int:
    return _sizes(item).numel()
