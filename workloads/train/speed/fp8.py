"""Matrix products in fp8, about twice the rate of bf16 on cards that have them (Ada, Hopper and newer).

Each tensor is scaled by its own largest value as it is used (Micikevicius et al. 2022, "FP8 Formats for Deep Learning",
https://arxiv.org/abs/2209.05433): e4m3 forward, e5m2, which has the wider range, for gradients; sums are fp32. Weights, their gradients and
what is sent stay what they were. The head is left out, and so are shapes that are no multiple of 16. Off by default: losses differ.
"""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from typing import Any, Final, cast

import torch

from ..errors import UsageError

FORWARD, BACKWARD = torch.float8_e4m3fn, torch.float8_e5m2
_MULTIPLE: Final = 16
_CAPABILITY: Final = (8, 9)


def check(device: torch.device) -> None:
    """Refuse a device without fp8.

    Raises:
        UsageError: naming it.
    """
    if device.type == "cuda" and torch.cuda.get_device_capability(device) >= _CAPABILITY:
        return
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    raise UsageError(f"fp8: found {name}; allowed: a GPU of compute capability 8.9 or newer; leave fp8 out")


def linear(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Return hidden [..., in] times weight [out, in], plus bias, in the dtype of hidden; what `fused_linear.apply` takes."""
    flat = hidden.flatten(0, -2)
    if any(size % _MULTIPLE for size in (*flat.shape, weight.shape[0])):
        return torch.nn.functional.linear(hidden, weight, bias)
    out = cast(torch.Tensor, _Product.apply(flat, weight)).unflatten(0, hidden.shape[:-1])
    return out if bias is None else out + bias


def scaled(tensor: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a tensor in fp8, its largest value at the end of the range, and the fp32 scalar to multiply it with."""
    largest = torch.finfo(dtype).max
    factor = largest / tensor.abs().amax().float().clamp(min=1e-12)
    return (tensor.float() * factor).clamp(-largest, largest).to(dtype), factor.reciprocal()


def _multiply(
    left: torch.Tensor,
    left_scale: torch.Tensor,
    right: torch.Tensor,
    right_scale: torch.Tensor,
    *,
    fast: bool,
    out: torch.dtype,
) -> torch.Tensor:
    """Return left [m, k], by rows, times right [k, n], by columns: the one layout that tensor cores read."""
    multiply: Any = getattr(torch, "_scaled_mm")  # noqa: B009 -- torch has no public name for it
    return multiply(left, right, scale_a=left_scale, scale_b=right_scale, out_dtype=out, use_fast_accum=fast)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        hidden8, hidden_scale = scaled(hidden, FORWARD)
        weight8, weight_scale = scaled(weight, FORWARD)
        # hidden in fp8 is half of what bf16 would keep; the weight is there anyway.
        ctx.save_for_backward(hidden8, hidden_scale, weight, weight_scale)
        return _multiply(hidden8, hidden_scale, weight8.t(), weight_scale, fast=True, out=hidden.dtype)

    @staticmethod
    def backward(ctx: Any, *outputs: Any) -> Any:
        hidden8, hidden_scale, weight, weight_scale = ctx.saved_tensors
        slope: torch.Tensor = outputs[0]
        slope8, slope_scale = scaled(slope, BACKWARD)
        weight8 = (weight.float() / weight_scale).to(FORWARD)
        # Sums of gradients are long: they are kept in full fp32, not in what tensor cores keep between.
        of_hidden = _multiply(
            slope8, slope_scale, weight8.t().contiguous().t(), weight_scale, fast=False, out=slope.dtype
        )
        of_weight = _multiply(
            slope8.t().contiguous(),
            slope_scale,
            hidden8.t().contiguous().t(),
            hidden_scale,
            fast=False,
            out=slope.dtype,
        )
        return of_hidden, of_weight
