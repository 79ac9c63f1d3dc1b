"""The sum of gradients over replicas in bf16, once a step: half the bytes between nodes, while micro-batches are summed in fp32.

FSDP2 has no such cast. Its `MixedPrecisionPolicy(reduce_dtype=bf16)` would sum the micro-batches in bf16 too.
"""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor


class ReplicaSum:
    """Average each gradient over `mesh` as soon as the last backward has it, beside what is still computed."""

    def __init__(self, module: torch.nn.Module, mesh: DeviceMesh) -> None:
        self.active = False
        """Whether this micro-batch is the step's last."""
        self._group = mesh.get_group()
        self._size = mesh.size()
        self._stream = torch.cuda.Stream() if mesh.device_type == "cuda" else None
        for parameter in module.parameters():
            # FSDP calls it when the reduced gradient was added, within its own stream.
            parameter.register_post_accumulate_grad_hook(self._average)

    def _average(self, parameter: torch.Tensor) -> None:
        if not self.active or parameter.grad is None:
            return
        gradient = parameter.grad
        local = gradient.to_local() if isinstance(gradient, DTensor) else gradient
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream())
        with self._on_stream():
            sent = (local / self._size).to(torch.bfloat16)
            dist.all_reduce(sent, group=self._group)
            local.copy_(sent)

    def _on_stream(self) -> AbstractContextManager[object]:
        return torch.cuda.stream(self._stream) if self._stream is not None else nullcontext()

    def wait(self) -> None:
        """Let what comes next on this device wait for the sums."""
        if self._stream is not None:
            torch.cuda.current_stream().wait_stream(self._stream)
