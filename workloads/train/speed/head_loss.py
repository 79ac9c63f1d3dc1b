"""The loss in chunks whose parts of the head's gradient are added up inside the matrix product, in fp32.

Beside `loss.summed_loss` it saves, for each chunk, the part in bf16 and the pass that adds it: 2.3 GB of traffic with a head of
151,936 x 1,536. And a part is no longer rounded to bf16 before it is added.
"""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeAlias, cast

import torch

from .. import loss
from ..data.batch import IGNORED
from ..model import CausalLM

Slope: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def apply(module: CausalLM, *, compile: bool, backend: str = "inductor") -> None:
    """Let the root's forward use this loss. Before the model is sharded."""
    slope = (
        torch.compile(loss.loss_and_slope, fullgraph=True, dynamic=False, backend=backend)
        if compile
        else loss.loss_and_slope
    )
    module.forward = partial(_forward, module, slope)


def _forward(
    of: CausalLM,
    slope: Slope,
    input_ids: torch.Tensor,
    position_ids: torch.Tensor,
    labels: torch.Tensor,
    num_documents: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = of.hidden(input_ids, position_ids, num_documents).flatten(0, 1)
    total = summed_loss(hidden, of.head_weight, labels.flatten(), rows=of.chunk_rows, slope=slope)
    return total, (labels != IGNORED).sum()


def summed_loss(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    *,
    rows: int = loss.ROWS,
    slope: Slope = loss.loss_and_slope,
) -> torch.Tensor:
    """Return what `loss.summed_loss` does; `slope` is `loss.loss_and_slope` or its compiled form."""
    if not torch.is_grad_enabled():
        return loss.summed_loss(hidden, weight, labels, rows=rows)
    return cast(torch.Tensor, _Summed.apply(hidden, weight, labels, rows, slope))


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, rows: int, slope: Slope
    ) -> torch.Tensor:
        total = hidden.new_zeros((), dtype=torch.float32)
        of_hidden = torch.empty_like(hidden)
        of_weight = torch.zeros_like(weight, dtype=torch.float32)
        inside = adds_in_fp32(hidden.device.type, hidden.dtype)
        for start in range(0, len(hidden), rows):
            here = slice(start, start + rows)
            part, wrong = slope(hidden[here], weight, labels[here])
            total += part
            torch.mm(wrong, weight, out=of_hidden[here])
            if inside:
                torch.addmm(of_weight, wrong.t(), hidden[here], out_dtype=torch.float32, out=of_weight)
            else:
                of_weight += wrong.t() @ hidden[here]
        ctx.save_for_backward(of_hidden, of_weight)
        ctx.dtype = weight.dtype
        return total

    @staticmethod
    def backward(ctx: Any, *outputs: Any) -> Any:
        return (*loss.scaled_gradients(ctx, outputs[0]), None, None, None)


@cache
def adds_in_fp32(device: str, dtype: torch.dtype) -> bool:
    """Tell whether this torch multiplies `dtype` into an fp32 sum on `device`; since 2.8, on CUDA."""
    if device != "cuda" or dtype == torch.float32:
        return False
    ones = torch.ones(16, 16, device=device, dtype=dtype)
    total = torch.ones(16, 16, device=device)
    try:
        torch.addmm(total, ones, ones, out_dtype=torch.float32, out=total)
    except (RuntimeError, TypeError):
        return False
    return bool((total == 17).all())
