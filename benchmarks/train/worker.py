"""One rank of one point: `torchrun -m benchmarks.train.worker POINT.json FOLDER`.

Rank 0 leaves FOLDER/result.json, a rank that fails its own. The time is asked for at both ends of the timed steps alone: in between
nothing waits for the device but the recipe itself.
"""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import contextlib
import ctypes
import gc
import itertools
import json
import os
import signal
import statistics
import sys
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Protocol, cast

import torch
import torch.distributed as dist
from torch.nn.attention import SDPBackend, sdpa_kernel

from workloads.train.data.batch import Batch
from workloads.train.errors import TrainingError
from workloads.train.model_shape import shape_of
from workloads.train.plan.flops import flops_per_token
from workloads.train.plan.hardware import card_of
from workloads.train.plan.trial import is_out_of_memory

from . import expect, link, ours, peers, trace
from .point import MODELS, Point
from .rates import gemm_flops, link_gbps, settle

_PR_SET_PDEATHSIG: Final = 1
"""<sys/prctl.h>"""
COLLECTIVE_SECONDS: Final = 180
OUT_OF_MEMORY, FAILED = 3, 1
_ORDER: Final = {
    "cudnn": [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION],
    "flash": [SDPBackend.FLASH_ATTENTION],
}
_LAST: Final = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


class Recipe(Protocol):
    """What is measured."""

    @property
    def module(self) -> torch.nn.Module:
        """Return the sharded model."""
        ...

    def step(self, batches: Sequence[Batch]) -> torch.Tensor:
        """Make one optimizer step and return the mean loss."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where this rank is."""

    rank: int
    local_rank: int
    world_size: int
    device: torch.device


def main(arguments: Sequence[str]) -> int:
    """Measure a point in torchrun's environment; leave at once after an error, as an orderly end would wait for the other ranks."""
    point = Point.model_validate_json(Path(arguments[0]).read_text(encoding="utf-8"))
    # No rank holds a GPU once its torchrun is gone.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    folder, place = Path(arguments[1]), _place()
    os.environ.setdefault("NCCL_HOSTID", link.host_id(place.local_rank, place.world_size, point.nodes))
    try:
        found = _measure(point, place)
    except Exception as error:
        out = is_out_of_memory(error) or "ALLOC_FAILED" in str(error)
        said = str(error) if isinstance(error, TrainingError) else traceback.format_exc()
        print(said, file=sys.stderr, flush=True)
        note = {"outcome": "oom" if out else "failed", "said": said.strip().splitlines()[-1][:400]}
        (folder / f"rank-{place.rank}.json").write_text(json.dumps(note), encoding="utf-8")
        os._exit(OUT_OF_MEMORY if out else FAILED)
    if place.rank == 0:
        (folder / "result.json").write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()
    return 0


def _place() -> Place:
    rank, local, world = (int(os.environ[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
    cuda = torch.cuda.is_available()
    return Place(rank, local, world, torch.device("cuda", local) if cuda else torch.device("cpu"))


def _measure(point: Point, place: Place) -> dict[str, object]:
    device, cuda = place.device, place.device.type == "cuda"
    if cuda:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    dist.init_process_group(
        "cuda:nccl,cpu:gloo" if cuda else "gloo",
        timeout=timedelta(seconds=COLLECTIVE_SECONDS),
        device_id=device if cuda else None,
    )
    gemm = gemm_flops(device)
    across, inside = link_gbps(device), _in_node(point, place)
    with _attention(point):
        recipe: Recipe = (ours.Ours if point.recipe == "ours" else peers.build)(point, device, place.world_size)
        batches = _batches(point, place)
        return _timed(point, place, recipe, batches) | _around(point, place, recipe, gemm, across, inside)


def _in_node(point: Point, place: Place) -> float | None:
    per_node = place.world_size // point.nodes
    if point.nodes == 1 or per_node == 1:
        return None
    groups = [dist.new_group(list(range(first, first + per_node))) for first in range(0, place.world_size, per_node)]
    return link_gbps(place.device, cast(dist.ProcessGroup, groups[place.rank // per_node]))


def _attention(point: Point) -> AbstractContextManager[object]:
    """Prefer a kernel in the whole process, also while blocks are compiled."""
    if point.attention == "default":
        return contextlib.nullcontext()
    return cast(AbstractContextManager[object], sdpa_kernel([*_ORDER[point.attention], *_LAST], set_priority=True))


def _batches(point: Point, place: Place) -> list[Batch]:
    """Return random tokens, the same for every recipe and step, others on each rank: so the loss falls."""
    generator = torch.Generator().manual_seed(1 + 1000 * place.rank)
    words = cast(int, MODELS[point.model]["vocab_size"])
    document = point.sequence_length // point.documents
    positions = torch.arange(document).repeat(point.micro_batch, point.documents)
    found: list[Batch] = []
    for _ in range(point.accumulation):
        tokens = torch.randint(words, (point.micro_batch, point.sequence_length + 1), generator=generator)
        batch = Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), positions)
        if place.device.type != "cuda":
            found.append(batch)
        else:
            # Ours brings its batches to the device itself; the others have them there.
            found.append(batch.pinned() if point.recipe == "ours" else batch.to(place.device))
    return found


def _timed(point: Point, place: Place, recipe: Recipe, batches: list[Batch]) -> dict[str, object]:
    device, cuda = place.device, place.device.type == "cuda"
    started = settle(device)
    losses = [recipe.step(batches) for _ in range(point.warm_up)]
    warm_up = settle(device) - started
    gc.collect()
    if cuda:
        torch.cuda.reset_peak_memory_stats(device)
    dist.barrier()
    started, marks = settle(device), [_mark(cuda)]
    for _ in range(point.steps):
        losses.append(recipe.step(batches))
        marks.append(_mark(cuda))
    seconds = _largest(settle(device) - started, device)
    steps = sorted(a.elapsed_time(b) / 1e3 if cuda else b - a for a, b in itertools.pairwise(marks))
    tokens = point.micro_batch * point.accumulation * place.world_size * point.sequence_length
    rate = tokens * point.steps / seconds / place.world_size
    flops = rate * flops_per_token(shape_of(MODELS[point.model]), point.sequence_length)
    peak = card_of(torch.cuda.get_device_name(device)).peak_flops if cuda else None
    memory = torch.cuda.memory_stats(device) if cuda else {}
    found: dict[str, object] = {
        "tokens_per_step": tokens,
        "tokens_per_second_per_rank": rate,
        "step_seconds": {
            "mean": seconds / point.steps,
            "median": statistics.median(steps),
            "min": steps[0],
            "max": steps[-1],
        },
        "model_flops": flops,
        "mfu": flops / peak if peak else None,
        "memory_reserved": int(_largest(memory.get("reserved_bytes.all.peak", 0), device)),
        "memory_retries": int(_largest(memory.get("num_alloc_retries", 0), device)),
        "warm_up_seconds": warm_up,
        "losses": [_mean(losses[index], place) for index in (0, -1)],
    }
    if point.profile and cuda:
        found["profile"] = trace.traced(lambda: recipe.step(batches), device)
    return found


def _around(
    point: Point, place: Place, recipe: Recipe, gemm: float, across: float | None, inside: float | None
) -> dict[str, object]:
    device, cuda = place.device, place.device.type == "cuda"
    name = torch.cuda.get_device_name(device) if cuda else "cpu"
    gemm = -_largest(-gemm, device)
    expected = None
    if cuda and point.recipe != "sample":
        machine = expect.machine_of(
            point,
            place.world_size,
            device_name=name,
            gemm=gemm,
            memory_bytes=cast(int, torch.cuda.get_device_properties(device).total_memory),
            link_gbps=across,
            in_node_gbps=inside,
        )
        expected = expect.expected(point, place.world_size, machine)
    return {
        "gemm_flops": gemm,
        "link_gbps": across,
        "in_node_gbps": inside,
        "expected": expected,
        "attention": _kernel(point, device),
        "features": getattr(recipe, "features", []),
        # FSDP1 counts what a rank holds, FSDP2 the whole.
        "parameters": sum(one.numel() for one in recipe.module.parameters())
        * (place.world_size if point.recipe == "sample" else 1),
        "gpu": name,
        "world_size": place.world_size,
        "torch": torch.__version__,
        "nccl": _nccl() if cuda else None,
        "transformers": version("transformers"),
        "compile_breaks": _breaks(),
    }


def _nccl() -> str:
    nccl: Any = __import__("torch.cuda.nccl", fromlist=["nccl"])
    return ".".join(map(str, nccl.version()))


def _breaks() -> int:
    counters: Any = __import__("torch._dynamo.utils", fromlist=["counters"])
    return len(counters.counters["graph_break"])


def _kernel(point: Point, device: torch.device) -> str:
    """Return the kernel that torch takes for a row that is one document."""
    shape = shape_of(MODELS[point.model])
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    query, key, value = (
        torch.ones(1, heads, point.sequence_length, shape.head_dim, device=device, dtype=dtype, requires_grad=True)
        for heads in (shape.num_heads, shape.num_kv_heads, shape.num_kv_heads)
    )
    choose: Any = getattr(torch, "_fused_sdp_choice")  # noqa: B009 -- torch has no public name for it
    choice = choose(query, key, value, is_causal=True, enable_gqa=True)
    return cast(Any, SDPBackend)(choice).name.lower()


def _mark(cuda: bool) -> Any:
    """Return a moment on the device's own clock, without waiting for it."""
    if not cuda:
        return settle(torch.device("cpu"))
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _largest(value: float, device: torch.device) -> float:
    shared = torch.tensor(value, dtype=torch.float64, device=device)
    dist.all_reduce(shared, op=dist.ReduceOp.MAX)
    return float(shared.item())


def _mean(loss: torch.Tensor, place: Place) -> float:
    shared = loss.detach().to(place.device, torch.float64)
    dist.all_reduce(shared)
    return float(shared.item()) / place.world_size


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
