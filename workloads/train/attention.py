"""Attention that keeps the documents of a packed sequence apart, behind transformers' attention interface.

Four ways, chosen by `choose` and said in the plan:
    causal   every row is one document: torch's scaled_dot_product_attention, which picks cuDNN or flash by itself
    varlen   torch.nn.attention.varlen: each document is a sequence of its own; CUDA
    flex     flex_attention with a block mask; CUDA, for a torch without the former
    mask     a block-diagonal causal mask, [rows, length, length]: CPU, where it is small
"""

# torch and transformers type their functions in part only.
# pyright: reportUnknownMemberType=false

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch

# By module, not from the package: that one looks through every model that it has.
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .errors import UsageError

NAME = "documents"
"""What a configuration's `_attn_implementation` is set to."""
Kind = Literal["varlen", "flex", "mask"]
_DOCUMENTS_PER_ROW = 16
"""Room for documents in a row before another size of table, and with it another compilation, is needed."""


@dataclass(frozen=True, slots=True)
class _Varlen:
    """torch's varlen_attn, whose arguments differ between versions."""

    call: Callable[..., torch.Tensor]
    causal: dict[str, Any]
    grouped: bool
    scales: bool


def _find_varlen() -> _Varlen | None:
    try:
        call = cast(Callable[..., torch.Tensor], importlib.import_module("torch.nn.attention.varlen").varlen_attn)
    except (ImportError, AttributeError):
        return None
    known = inspect.signature(call).parameters
    causal: dict[str, Any] = {"window_size": (-1, 0)} if "window_size" in known else {"is_causal": True}
    grouped = "enable_gqa" in known
    return _Varlen(call, {**causal, **({"enable_gqa": True} if grouped else {})}, grouped, "scale" in known)


# Found here, not where they are called: what is compiled cannot import.
_VARLEN = _find_varlen()
_FLEX = importlib.import_module("torch.nn.attention.flex_attention")


@dataclass(frozen=True, slots=True)
class Documents:
    """Where documents end, as the layers' keyword arguments say it; nothing at all: each row is one document."""

    mask: object = None
    """bool [rows, 1, length, length], or flex_attention's BlockMask."""
    bounds: torch.Tensor | None = None
    """int32 [documents + 1]: where each begins among rows * length tokens, then where the last ends; its end repeats as padding."""
    longest: int = 0

    def arguments(self) -> dict[str, object]:
        """Return the keyword arguments of a decoder layer; the names are transformers' own."""
        if self.bounds is None:
            return {"attention_mask": self.mask}
        return {"attention_mask": None, "cu_seq_lens_q": self.bounds, "max_length_q": self.longest}


def choose(device: str) -> Kind:
    """Return how documents are kept apart on a device of this type, by what this torch has."""
    if device != "cuda":
        return "mask"
    return "varlen" if _VARLEN is not None else "flex"


def count_documents(position_ids: torch.Tensor) -> int:
    """Return the number of documents in int64 [rows, length]. Asked of a tensor on the CPU: on a GPU it would wait for the device."""
    return int(_starts(position_ids).sum())


def documents(position_ids: torch.Tensor, kind: Kind, num_documents: int | None = None) -> Documents:
    """Tell documents apart by where `position_ids`, int64 [rows, length], restart at 0.

    With `num_documents` known nothing waits for the device, and the shapes hardly ever change.

    Raises:
        UsageError: `kind` needs a torch that has it.
    """
    rows, length = position_ids.shape
    count = count_documents(position_ids) if num_documents is None else num_documents
    if count == rows:
        return Documents()
    starts = _starts(position_ids)
    if kind == "varlen":
        return Documents(bounds=_bounds(starts, count), longest=length)
    numbers = starts.cumsum(1)
    if kind == "flex":
        return Documents(mask=_block_mask(numbers))
    same = numbers[:, :, None] == numbers[:, None, :]
    return Documents(mask=same.tril()[:, None])


def attend(
    _module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: object = None,
    *,
    scaling: float | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    max_length_q: int = 0,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """Attend to what comes before in the same document: [rows, heads, length, width] -> [rows, length, heads, width]."""
    if cu_seq_lens_q is not None:
        return _attend_varlen(query, key, value, cu_seq_lens_q, max_length_q, scaling), None
    grouped = query.shape[1] != key.shape[1]
    if attention_mask is None or isinstance(attention_mask, torch.Tensor):
        out = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attention_mask, is_causal=attention_mask is None, scale=scaling, enable_gqa=grouped
        )
    else:
        flex = importlib.import_module("torch.nn.attention.flex_attention").flex_attention
        out = cast(torch.Tensor, flex(query, key, value, block_mask=attention_mask, scale=scaling, enable_gqa=grouped))
    return out.transpose(1, 2), None


def _attend_varlen(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bounds: torch.Tensor, longest: int, scale: float | None
) -> torch.Tensor:
    rows, _, length, _ = query.shape
    varlen = _VARLEN
    if varlen is None:
        raise UsageError(f"attention: found torch {torch.__version__} without varlen_attn; allowed: flex; set it so")
    if not varlen.grouped and key.shape[1] != query.shape[1]:
        repeats = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    packed = (one.transpose(1, 2).flatten(0, 1) for one in (query, key, value))
    if not varlen.scales and scale is not None and scale != query.shape[-1] ** -0.5:
        raise UsageError(f"attention: found a scale of {scale}; allowed with torch {torch.__version__}: width ** -0.5")
    scaled = {"scale": scale} if varlen.scales else {}
    out: torch.Tensor = varlen.call(*packed, bounds, bounds, longest, longest, **varlen.causal, **scaled)
    return out.view(rows, length, *out.shape[1:])


def _starts(position_ids: torch.Tensor) -> torch.Tensor:
    starts = position_ids == 0
    # A row begins a document, whatever it is cut from.
    starts[:, 0] = True
    return starts


def _bounds(starts: torch.Tensor, count: int) -> torch.Tensor:
    """Return where documents begin, in a table whose size is a power of two: its shape must not follow the data."""
    total = starts.numel()
    room = 1 << (max(count, _DOCUMENTS_PER_ROW * len(starts)) - 1).bit_length()
    flat = starts.flatten()
    # Tokens that begin nothing write the end into the last place, which holds it anyway.
    places = torch.where(flat, flat.cumsum(0) - 1, room)
    values = torch.where(flat, torch.arange(total, device=starts.device), total)
    table = torch.full((room + 1,), total, dtype=torch.int32, device=starts.device)
    return table.scatter_(0, places, values.to(torch.int32))


def _block_mask(numbers: torch.Tensor) -> object:
    def allowed(row: torch.Tensor, _head: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return (query >= key) & (numbers[row, query] == numbers[row, key])

    rows, length = numbers.shape
    return _FLEX.create_block_mask(allowed, rows, None, length, length, device=numbers.device.type)


ALL_ATTENTION_FUNCTIONS.register(NAME, attend)
