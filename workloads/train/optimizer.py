"""AdamW with fp32 state, warm-up then a cosine, and the true global norm of the gradients."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import math
from collections.abc import Iterable

import torch
from torch.distributed.tensor import DTensor

from .sections import OptimizerConfig


def make_optimizer(module: torch.nn.Module, config: OptimizerConfig) -> torch.optim.AdamW:
    """Return fused AdamW over the module's (sharded) parameters, matrices with weight decay and the rest without."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {"params": [one for one in parameters if one.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [one for one in parameters if one.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        fused=True,
    )


def learning_rate(config: OptimizerConfig, step: int, steps: int) -> float:
    """Return the learning rate of a step, counted from 1, of a run of `steps`. A function of the step alone: nothing to save."""
    if step <= config.warmup_steps:
        return config.learning_rate * step / config.warmup_steps
    done = (step - config.warmup_steps) / max(1, steps - config.warmup_steps)
    falling = (1 + math.cos(math.pi * min(1.0, done))) / 2
    return config.learning_rate * (config.final_fraction + (1 - config.final_fraction) * falling)


def set_learning_rate(optimizer: torch.optim.Optimizer, value: float) -> None:
    """Let all groups use a learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = value


def clip(parameters: Iterable[torch.nn.Parameter], limit: float) -> torch.Tensor:
    """Scale the gradients down to the norm `limit` and return the norm before, a plain fp32 scalar that nothing waited for.

    It is the norm over all shards: what a rank would compute of its own is too small by about the square root of their number
    (https://github.com/pytorch/pytorch/issues/170862).
    """
    found = [parameter for parameter in parameters if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm([one.grad for one in found if one.grad is not None])
    if isinstance(norm, DTensor):
        norm = norm.full_tensor()
    torch.nn.utils.clip_grads_with_norm_(found, limit, norm)
    return norm
