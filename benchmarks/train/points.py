"""Which points are measured together: rows that are compared stand in one list and run forwards, then backwards."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from workloads.train.errors import UsageError

from .point import Point

_OURS: dict[str, Any] = {"recipe": "ours", "reshard": False, "chunk_rows": 4096}
_BEST: tuple[str, ...] = ("fused-linear", "head-fp32", "cublaslt")


def _point(name: str, **values: Any) -> Point:
    return Point.model_validate({"name": name, **values})


ONE_GPU: Sequence[Point] = (
    _point("T+", recipe="titan", micro_batch=24, reshard=False, profile=True, expected_seconds=80),
    _point("ours", **_OURS, micro_batch=24, levers=_BEST, profile=True, expected_seconds=75),
    _point("ours keeps all", **_OURS, micro_batch=24, recompute="none", levers=_BEST, expected_seconds=75),
    _point("T+ keeps all", recipe="titan", micro_batch=24, reshard=False, recompute="none", expected_seconds=75),
    _point("ours 32", **_OURS, micro_batch=32, levers=_BEST, expected_seconds=80),
    _point("ours, no levers", **_OURS, micro_batch=24, expected_seconds=70),
    _point("T", recipe="titan", micro_batch=8, expected_seconds=60),
    _point("H", recipe="hugging-face", micro_batch=8, expected_seconds=40),
    _point("S1", recipe="sample", micro_batch=4, expected_seconds=35),
)
"""One GPU in ten minutes: peers, ours, and what the levers are worth together."""

ABLATION: Sequence[Point] = (
    _point("T+", recipe="titan", micro_batch=24, reshard=False, expected_seconds=70),
    _point("all", **_OURS, micro_batch=24, levers=_BEST, expected_seconds=70),
    *(
        _point(f"all but {lever}", **_OURS, micro_batch=24, levers=[one for one in _BEST if one != lever])
        for lever in _BEST
    ),
    _point("all, 8192 rows", **{**_OURS, "chunk_rows": 8192}, micro_batch=24, levers=_BEST),
    _point("all, 2048 rows", **{**_OURS, "chunk_rows": 2048}, micro_batch=24, levers=_BEST),
    _point("all, flash", **_OURS, micro_batch=24, levers=_BEST, attention="flash"),
    _point("all, reshard", **{**_OURS, "reshard": True}, micro_batch=24, levers=_BEST),
    _point("all, half recomputes", **_OURS, micro_batch=24, recompute_blocks=14, levers=_BEST),
    _point("all, none recomputes", **_OURS, micro_batch=16, recompute="none", levers=_BEST),
    _point("all, 4 documents", **_OURS, micro_batch=24, documents=4, levers=_BEST),
    _point("all, eager", **_OURS, micro_batch=8, compile=False),
    _point("all, tuned GEMMs", **_OURS, micro_batch=24, levers=(*_BEST, "tuned-gemm"), expected_seconds=240),
    _point("fp8", **_OURS, micro_batch=24, levers=(*_BEST, "fp8"), expected_seconds=90),
)
"""Each lever off in turn, or another in its place."""

TWO_GPUS: Sequence[Point] = (
    _point("T", recipe="titan", micro_batch=8),
    _point("T+", recipe="titan", micro_batch=24, reshard=False),
    _point("ours", **_OURS, micro_batch=24, levers=_BEST),
    _point("H", recipe="hugging-face", micro_batch=8, expected_seconds=45),
    _point("S1", recipe="sample", micro_batch=4, expected_seconds=40),
    _point("S0", recipe="sample", micro_batch=1, sequence_length=128, expected_seconds=35),
)
"""Two GPUs on their own links."""


def _slow(name: str, **values: Any) -> Point:
    return _point(name, **{"nodes": 2, "steps": 4, "warm_up": 3, "expected_seconds": 70, **values})


TWO_NODES: Sequence[Point] = (
    _slow("T x4", recipe="titan", micro_batch=4, accumulation=4),
    _slow("T+ x4", recipe="titan", micro_batch=4, accumulation=4, reshard=False, strategy="unsharded-accumulation"),
    _slow("H x4", recipe="hugging-face", micro_batch=4, accumulation=4),
    _slow("ours x4", **_OURS, micro_batch=4, accumulation=4, strategy="hsdp", levers=_BEST),
    _slow(
        "ours x4, bf16", **_OURS, micro_batch=4, accumulation=4, strategy="hsdp", levers=_BEST, replica_reduce="bf16"
    ),
    _slow("T x1", recipe="titan", micro_batch=4),
    _slow("ours x1", **_OURS, micro_batch=4, strategy="hsdp", levers=_BEST),
    _slow("ours 16x8", **_OURS, micro_batch=16, accumulation=8, strategy="hsdp", levers=_BEST),
    _slow("ours 16x8, 16 Gb/s", **_OURS, micro_batch=16, accumulation=8, strategy="hsdp", levers=_BEST, link_gbps=16),
)
"""Two pretended nodes, joined by sockets."""

_EIGHT = (
    # link, sequences of a micro-batch, accumulation: 2k, 8k, 32k and 75k tokens of a micro-batch.
    (None, 1, 1), (None, 4, 4), (None, 16, 4), (None, 36, 1),
    (60.0, 1, 4), (60.0, 4, 4), (60.0, 16, 4),
    (40.0, 4, 1), (40.0, 4, 4), (40.0, 4, 8), (40.0, 36, 4),
    (10.0, 4, 8), (10.0, 16, 8), (10.0, 36, 8),
)  # fmt: skip


def _eight() -> Sequence[Point]:
    found: list[Point] = []
    for gbps, micro_batch, accumulation in _EIGHT:
        link = f"{gbps:g} Gb/s" if gbps else "NVLink"
        size: dict[str, Any] = {"micro_batch": micro_batch, "accumulation": accumulation, "warm_up": 2, "steps": 3}
        size["recompute"] = "full" if micro_batch > 24 else "selective"
        size |= {"nodes": 2, "link_gbps": gbps} if gbps else {}
        label = f"{link}, {micro_batch}x{accumulation}"
        whole = {"strategy": "unsharded-accumulation", "reshard": False}
        found += [
            _point(f"T, {label}", recipe="titan", **size),
            _point(f"T whole, {label}", recipe="titan", **size, **whole),
            _point(f"ours fsdp, {label}", **_OURS, **size, levers=_BEST),
        ]
        if gbps:
            found.append(_point(f"ours hsdp, {label}", **_OURS, **size, levers=_BEST, strategy="hsdp"))
            if accumulation > 1:
                found.append(
                    _point(
                        f"ours whole, {label}", **_OURS, **size, levers=_BEST, replicas=2, strategy=whole["strategy"]
                    )
                )
    return found


EIGHT_GPUS: Sequence[Point] = _eight()
"""2 x 4: links, micro-batches and accumulation at 14 places, the strategies beside each other at each."""

SMALL: Sequence[Point] = tuple(
    _point(
        name,
        **{
            "model": "tiny",
            "sequence_length": 32,
            "micro_batch": 2,
            "warm_up": 1,
            "steps": 2,
            "compile": False,
            **more,
        },
    )
    for name, more in (
        ("T", {"recipe": "titan"}),
        ("ours", {"recipe": "ours", "levers": ["fused-linear", "head-fp32"], "chunk_rows": 48}),
        ("H", {"recipe": "hugging-face", "accumulation": 2}),
        ("S1", {"recipe": "sample"}),
    )
)
"""All recipes at a size for CPUs."""

LISTS: Mapping[str, Sequence[Point]] = {
    "default": ONE_GPU,
    "ablation": ABLATION,
    "two-gpus": TWO_GPUS,
    "two-nodes": TWO_NODES,
    "eight-gpus": EIGHT_GPUS,
    "small": SMALL,
}


def read(source: str) -> list[Point]:
    """Return the points of a list in `LISTS`, or of a JSON file: an array of objects with the fields of `Point`.

    Raises:
        UsageError: there is no such list or file, or something in it is no point; every problem, one a line.
    """
    if source in LISTS:
        return list(LISTS[source])
    try:
        found = TypeAdapter(list[Point]).validate_json(Path(source).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--points: cannot read {source}: {error}; allowed: a file, {', '.join(LISTS)}") from error
    except ValidationError as error:
        lines = (f"--points {source}: {'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise UsageError("\n".join(lines)) from error
    names = [point.name for point in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"--points {source}: found {', '.join(twice)} more than once; allowed: a name for each point")
    return found
