"""What the model sees at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch

IGNORED = -100
"""The label that is not counted; what cross_entropy calls ignore_index."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences of one length. Documents in a sequence are told apart by their positions alone."""

    input_ids: torch.Tensor
    """int64 [n, s]."""
    labels: torch.Tensor
    """int64 [n, s]: `labels[i, t]` is the token that follows `input_ids[i, t]`, or IGNORED: padding, prompt, end of a document."""
    position_ids: torch.Tensor
    """int64 [n, s]: 0 where a document or the padding begins."""
    counted: int = -1
    """Labels that count, where they were counted before; -1: count now."""

    def __post_init__(self) -> None:
        if self.counted < 0:
            object.__setattr__(self, "counted", int((self.labels != IGNORED).sum()))

    @property
    def num_tokens(self) -> int:
        """Return how many labels count. Known on the host: it waits for no device."""
        return self.counted

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch on a device; from pinned memory the copy goes on while the host does."""
        return Batch(
            self.input_ids.to(device, non_blocking=True),
            self.labels.to(device, non_blocking=True),
            self.position_ids.to(device, non_blocking=True),
            self.counted,
        )

    def pinned(self) -> Batch:
        """Return the batch in page-locked memory. It needs CUDA."""
        return Batch(
            self.input_ids.pin_memory(), self.labels.pin_memory(), self.position_ids.pin_memory(), self.counted
        )

    def counting(self, num_sequences: int) -> Batch:
        """Return the same tokens, of which only the first sequences count: the rest fills a shape or keeps up with other ranks."""
        if num_sequences >= len(self.labels):
            return self
        labels = self.labels.clone()
        labels[num_sequences:] = IGNORED
        return Batch(self.input_ids, labels, self.position_ids)
