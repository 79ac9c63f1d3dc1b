"""Cross-entropy over the LM head without ever holding all logits: 2,048 tokens times 151,936 words are 1.2 GB in fp32.

The gradients are made chunk by chunk while each chunk's logits are there. A chunk reads the whole head: below about 400 rows a card
of 300 GB/s is bound by that, so chunks have 1,024 rows or more.
"""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import torch

from .data.batch import IGNORED

ROWS = 2048
"""Tokens of a chunk."""

Chunk: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor, torch.Tensor]]


def chunk_with_gradients(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return summed loss (fp32 scalar) and its gradients for hidden [rows, width] and weight [words, width], in their dtype."""
    loss, gradient = loss_and_slope(hidden, weight, labels)
    return loss, gradient @ weight, gradient.t() @ hidden


def loss_and_slope(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a chunk's loss, summed in fp32, and its gradient for the logits, [rows, words] in the dtype of hidden."""
    logits = (hidden @ weight.t()).float()
    total = logits.logsumexp(-1, keepdim=True)
    counts = (labels != IGNORED)[:, None]
    words = labels.clamp(min=0)[:, None]
    loss = torch.where(counts, total - logits.gather(-1, words), 0.0).sum()
    hit = torch.arange(logits.shape[-1], device=logits.device) == words
    return loss, torch.where(counts, (logits - total).exp() - hit.float(), 0.0).to(hidden.dtype)


def summed_loss(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    *,
    rows: int = ROWS,
    chunk: Chunk = chunk_with_gradients,
) -> torch.Tensor:
    """Return the cross-entropy in nats of hidden [tokens, width] under head [words, width], summed in fp32 over labels that count.

    `chunk` is `chunk_with_gradients` or its compiled form.
    """
    if not torch.is_grad_enabled():
        return _without_gradients(hidden, weight, labels, rows)
    return _Summed.apply(hidden, weight, labels, rows, chunk)  # pyright: ignore[reportUnknownVariableType, reportReturnType]


def _without_gradients(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, rows: int) -> torch.Tensor:
    parts = [
        torch.nn.functional.cross_entropy((some @ weight.t()).float(), wanted, ignore_index=IGNORED, reduction="sum")
        for some, wanted in zip(_chunks(hidden, rows), _chunks(labels, rows), strict=True)
    ]
    return torch.stack(parts).sum()


def _chunks(tensor: torch.Tensor, rows: int) -> tuple[torch.Tensor, ...]:
    return cast(tuple[torch.Tensor, ...], tensor.split(rows))


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, rows: int, chunk: Chunk
    ) -> torch.Tensor:
        loss = hidden.new_zeros((), dtype=torch.float32)
        of_hidden = torch.empty_like(hidden)
        # Summed in fp32: in bf16 a chunk's part would vanish beside the sum of those before.
        of_weight = torch.zeros_like(weight, dtype=torch.float32)
        for some, wanted, out in zip(
            _chunks(hidden, rows), _chunks(labels, rows), _chunks(of_hidden, rows), strict=True
        ):
            part, part_hidden, part_weight = chunk(some, weight, wanted)
            loss += part
            out.copy_(part_hidden)
            of_weight += part_weight
        ctx.save_for_backward(of_hidden, of_weight)
        ctx.dtype = weight.dtype
        return loss

    @staticmethod
    def backward(ctx: Any, *outputs: Any) -> Any:
        return (*scaled_gradients(ctx, outputs[0]), None, None, None)


def scaled_gradients(ctx: Any, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the saved gradients of hidden and weight times that of the loss, weight's in `ctx.dtype`."""
    of_hidden, of_weight = ctx.saved_tensors
    # In fp32: one divided by a number of tokens, rounded to bf16, would be wrong by up to 0.4 %.
    return (of_hidden.float() * scale).to(of_hidden.dtype), (of_weight * scale).to(ctx.dtype)
