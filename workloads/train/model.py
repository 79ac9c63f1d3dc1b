"""The built-in model: a Qwen2 of some hundred thousand parameters from a fixed seed, sharded over all ranks."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

# By module, not from the package: that one looks through every model that it has.
from transformers.models.qwen2.configuration_qwen2 import Qwen2Config
from transformers.models.qwen2.modeling_qwen2 import Qwen2ForCausalLM

from . import data

SEED = 7
LEARNING_RATE = 3e-3


class _CausalLM(Protocol):
    """The part of a causal language model of transformers that is used here."""

    class Output(Protocol):
        logits: torch.Tensor

    def __call__(self, *, input_ids: torch.Tensor, use_cache: bool) -> Output: ...


@dataclass(frozen=True, slots=True)
class Trained:
    """A sharded model and its optimizer."""

    module: torch.nn.Module
    optimizer: torch.optim.Optimizer
    num_parameters: int

    def loss(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the mean cross-entropy in nats of predicting tokens 1.. from those before: int64 [batch, n + 1] -> scalar."""
        output = cast(_CausalLM, self.module)(input_ids=tokens[:, :-1], use_cache=False)
        return torch.nn.functional.cross_entropy(output.logits.flatten(0, 1), tokens[:, 1:].flatten())


def build(device: torch.device, world_size: int) -> Trained:
    """Return the model in fp32 on `device`, fully sharded over the default process group (FSDP2), with AdamW.

    Every rank makes the same weights from the same seed, so nothing is broadcast.
    """
    torch.manual_seed(SEED)
    config = Qwen2Config(
        vocab_size=data.VOCABULARY,
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=data.SEQUENCE,
        tie_word_embeddings=True,
    )
    # Typed by a decorator that loses the class.
    module = cast(torch.nn.Module, Qwen2ForCausalLM(config)).to(device=device, dtype=torch.float32)
    num_parameters = sum(parameter.numel() for parameter in module.parameters())
    mesh = init_device_mesh(device.type, (world_size,))
    for layer in cast(Iterable[torch.nn.Module], module.get_submodule("model.layers")):
        fully_shard(layer, mesh=mesh)
    # Embedding and head are one tensor: in one group they stay one.
    fully_shard(module, mesh=mesh)
    optimizer = torch.optim.AdamW(
        module.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.01, fused=True
    )
    return Trained(module, optimizer, num_parameters)
