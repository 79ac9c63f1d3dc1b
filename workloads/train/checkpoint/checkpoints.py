"""The checkpoints of one run: written beside the training, committed by a manifest, resumed from the newest that is whole.

Ray Train's own checkpoints are not used: there a rank that dies after `report` loses a checkpoint that was already reported.
"""

import torch

from .outcome import Resumed
from .resume import resume
from .saving import Saving


class Checkpoints(Saving):
    """The checkpoints of one run. Every method is called by all ranks together, and fails on all of them together.

    In the order of a run: `resume`, `prepare`, then after each step `save` where one is due and `poll`, at the end `save` with `last`
    and `wait`; `close` in any case.

    `identity` says what a checkpoint belongs to besides the model and the kind of optimizer: the tokenizer's hash, settings that matter.
    `files` are put beside the shards, by their name below `model/`: paths, or contents. `tell` gets the events of rank 0. `reach` is
    called at fault points.
    The default process group must carry tensors of the host, as gloo does ("cuda:nccl,cpu:gloo").
    """

    def resume(self, module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Resumed | None:
        """Load the newest complete checkpoint, whatever world wrote it; return what it is, or None where there is none.

        Restored are weights, optimizer (with its step and learning rates), random number generators (per rank, at the same world size)
        and `extra`. The default process group decides who loads what.

        Raises:
            StoreError: the store cannot be read, or the newest checkpoint is of another model, optimizer, tokenizer or format.
        """
        resumed, _ = resume(self, module, optimizer)
        return resumed
