"""Which rank writes what into which file: torch.distributed.checkpoint's plan, without a replica's second copy, cut into files."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import gettempdir

import torch
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan, WriteItem
from torch.distributed.checkpoint.storage import WriteResult

from ..agreement import collect, deal, on_any
from .state import MODEL, State

SMALLEST = 16 << 20
"""Bytes below which a file is not cut further: more requests than gain."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What this rank writes, one plan a file; on rank 0 also the checkpoint's metadata."""

    local: SavePlan
    """What this rank holds, replicas included: the layout is right as long as this does not change."""
    files: tuple[SavePlan, ...]
    metadata: Metadata | None

    @property
    def items(self) -> list[WriteItem]:
        """Return all that this rank writes."""
        return [item for file in self.files for item in file.items]


def planner_of(state: State, *, coordinator: bool) -> DefaultSavePlanner:
    """Return a planner that finds each tensor of the state."""
    planner = DefaultSavePlanner()
    planner.set_up_planner(state.tree, is_coordinator=coordinator)
    return planner


def lay_out(planner: DefaultSavePlanner, before: Layout | None, *, streams: int) -> Layout:
    """Return the layout for the planner's state: the one before where it is still right on all ranks. All ranks call it."""
    local = planner.create_local_plan()
    if not on_any(before is None or before.local.items != local.items) and before is not None:
        return before
    locals_ = collect(local)
    parts: list[list[SavePlan]] | None = None
    metadata: Metadata | None = None
    if locals_ is not None:
        # Replicas hold the same shard; each shard stays with the rank that has least to write until then.
        plans, metadata = planner.create_global_plan(locals_)
        cut = [_cut(plan, streams) for plan in plans]
        # The writer names files by the number of their plan.
        named = iter(writer(Path(gettempdir())).prepare_global_plan([file for files in cut for file in files]))
        parts = [[next(named) for _ in files] for files in cut]
    mine = deal(parts)
    return Layout(local, tuple(mine), metadata)


def writer(directory: Path) -> FileSystemWriter:
    """Return torch's writer of one file at a time into a directory.

    Not its own threads: an error in one of them is lost, and the checkpoint lacks a file. Nothing is flushed to the disk, as the file
    goes on to the store; nothing is copied ahead, as it is in host memory already.
    """
    return FileSystemWriter(
        directory, single_file_per_rank=True, sync_files=False, thread_count=1, per_thread_copy_ahead=0
    )


def finish(directory: Path, metadata: Metadata, results: Sequence[Sequence[WriteResult]]) -> None:
    """Write `.metadata` into a directory."""
    writer(directory).finish(metadata, [list(one) for one in results])


def num_bytes(item: WriteItem) -> int:
    """Return the bytes of a shard; 0 for what is no tensor."""
    if item.tensor_data is None:
        return 0
    return math.prod(item.tensor_data.chunk.sizes) * _element_size(item.tensor_data.properties.dtype)


def _cut(plan: SavePlan, streams: int) -> list[SavePlan]:
    """Cut a rank's plan into files of like size. Model and optimizer lie apart: an export reads a third of the bytes."""
    kinds: dict[bool, list[WriteItem]] = {True: [], False: []}
    for item in plan.items:
        kinds[item.index.fqn.startswith(f"{MODEL}.")].append(item)
    files: list[list[WriteItem]] = []
    for items in kinds.values():
        num_files = max(1, min(streams, sum(map(num_bytes, items)) // SMALLEST))
        bins: list[list[WriteItem]] = [[] for _ in range(num_files)]
        filled = [0] * num_files
        for item in sorted(items, key=num_bytes, reverse=True):
            least = filled.index(min(filled))
            bins[least].append(item)
            filled[least] += num_bytes(item)
        files += [one for one in bins if one]
    return [replace(plan, items=items) for items in files]


def _element_size(dtype: torch.dtype) -> int:
    return dtype.itemsize
