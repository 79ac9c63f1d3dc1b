"""The random number generators of one rank: Python's, NumPy's, torch's on the CPU and on this rank's GPU."""

# torch types its functions in part only; NumPy types its state as a union.
# pyright: reportUnknownMemberType=false

import base64
import hashlib
import json
import random
from typing import Any, cast

import numpy as np
import torch


def capture() -> str:
    """Return the state of all generators as JSON. Nothing in it is code, as a pickle would be."""
    kind, keys, position, has_gauss, gauss = cast("tuple[str, Any, int, int, float]", np.random.get_state(legacy=True))
    state: dict[str, object] = {
        "python": random.getstate(),
        "numpy": [kind, [int(key) for key in keys], position, has_gauss, gauss],
        "torch": _text(torch.get_rng_state()),
    }
    if torch.cuda.is_available():
        state["cuda"] = _text(torch.cuda.get_rng_state())
    return json.dumps(state)


def restore(text: str) -> None:
    """Put all generators where they were. A GPU's state is left aside where there is no GPU now."""
    state = cast(dict[str, Any], json.loads(text))
    version, inner, gauss = state["python"]
    random.setstate((version, tuple(inner), gauss))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(_tensor(state["torch"]))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(_tensor(state["cuda"]))


def reseed(base: str, rank: int) -> int:
    """Seed all generators of a rank that has no saved state; the same base and rank give the same seed, which is returned."""
    seed = int.from_bytes(hashlib.sha256(f"{base} {rank}".encode()).digest()[:4], "big")
    random.seed(seed)
    np.random.seed(seed)
    # Seeds the GPUs too.
    torch.manual_seed(seed)
    return seed


def _text(state: torch.Tensor) -> str:
    return base64.b64encode(state.numpy().tobytes()).decode()


def _tensor(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
