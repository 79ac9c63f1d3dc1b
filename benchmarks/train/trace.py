"""Where the GPU's time of one step goes, by kind of kernel and by kernel."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import torch
from torch.profiler import ProfilerActivity, profile

KINDS: Final[Sequence[tuple[str, str]]] = (
    ("attention", r"cudnn.*(sdpa|flash|attn)|flash|fmha|attention"),
    ("matrix products", r"gemm|nvjet|cutlass|xmma|splitk|triton_(tem|mm)|cublas"),
    ("communication", r"nccl"),
    ("fused", r"triton"),
    ("copies", r"memcpy|memset|copy|cat|chunk"),
    ("optimizer", r"multi_tensor|adam|foreach|norm_kernel"),
)
"""The first pattern that a kernel's name has, without regard to case."""


def kind_of(name: str) -> str:
    """Return the kind of a kernel."""
    return next((kind for kind, pattern in KINDS if re.search(pattern, name, re.IGNORECASE)), "other")


def traced(step: Callable[[], object], device: torch.device) -> dict[str, object]:
    """Run a step under the profiler; return milliseconds by kind, and the kernels that took longest. CUDA alone."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        step()
        torch.cuda.synchronize(device)
    kernels: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for event in cast(Any, found).key_averages():
        if event.device_type == cast(Any, torch.autograd).DeviceType.CUDA and event.self_device_time_total:
            kernels[event.key] += event.self_device_time_total / 1e3
            counts[event.key] += event.count
    kinds: Counter[str] = Counter()
    for name, milliseconds in kernels.items():
        kinds[kind_of(name)] += milliseconds
    return {
        "kinds": {kind: round(value, 2) for kind, value in kinds.most_common()},
        "kernels": [
            {"name": name[:110], "ms": round(value, 2), "count": counts[name]}
            for name, value in kernels.most_common(25)
        ],
    }
