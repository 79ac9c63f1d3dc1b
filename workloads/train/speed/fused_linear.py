"""One matrix product for query, key and value, and one for gate and up.

Parameters stay what they are, with their names; their weights are put side by side as they are used, 61 MB a block of Qwen2.5-1.5B, or
25 us on a card of 4.3 TB/s. In return the narrow products go away: a weight gradient of [256, 1536] has 24 tiles for 132 multiprocessors.

On one H200 it has not paid (docs/benchmarks/train-h200.md): the gradient of gate and up together costs a slower kernel, and query, key and
value alone gain nothing.
"""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import torch

from ..attention import attend
from ..model import CausalLM

Product: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]
"""(input [..., in], weight [out, in], bias [out] or None) -> [..., out]"""


def apply(module: CausalLM, product: Product = torch.nn.functional.linear, *, gate_up: bool = True) -> None:
    """Let all blocks compute so, and do all their matrix products with `product`. Before checkpointing, compiling and sharding.

    `gate_up` false leaves these two apart: they are wide enough alone, and the gradient of both together is one more pass.
    """
    for block in module.blocks:
        for part, forward in (("self_attn", _attention), ("mlp", _mlp if gate_up else _apart)):
            of = getattr(block, part)
            of.__class__ = _fused(type(of), forward, product)


@cache
def _fused(base: type[torch.nn.Module], forward: Callable[..., object], product: Product) -> type[torch.nn.Module]:
    """Return a class of modules with this forward: one for all blocks, where a forward of each would have it compiled anew."""

    def compute(self: torch.nn.Module, *arguments: Any, **options: Any) -> object:
        return forward(self, product, *arguments, **options)

    return type(base.__name__, (base,), {"forward": compute})


def _attention(
    of: Any,
    product: Product,
    hidden_states: torch.Tensor,
    position_embeddings: tuple[torch.Tensor, torch.Tensor],
    attention_mask: object = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    max_length_q: int = 0,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """Attend as transformers' layer does: [rows, length, width] in and out. Keyword arguments are those of `attend`."""
    parts = (of.q_proj, of.k_proj, of.v_proj)
    mixed = product(
        hidden_states,
        torch.cat([one.weight for one in parts]),
        None if of.q_proj.bias is None else torch.cat([one.bias for one in parts]),
    )
    heads = mixed.unflatten(-1, (-1, of.head_dim)).transpose(1, 2)
    key_value = of.k_proj.out_features // of.head_dim
    query_key, value = heads.split([heads.shape[1] - key_value, key_value], dim=1)
    cos, sin = (one.unsqueeze(1) for one in position_embeddings)
    first, second = query_key.chunk(2, dim=-1)
    turned = query_key * cos + torch.cat((-second, first), dim=-1) * sin
    query, key = turned.split([turned.shape[1] - key_value, key_value], dim=1)
    out, _weights = attend(
        of,
        query,
        key,
        value,
        attention_mask,
        scaling=of.scaling,
        cu_seq_lens_q=cu_seq_lens_q,
        max_length_q=max_length_q,
    )
    return product(out.flatten(2), of.o_proj.weight, of.o_proj.bias), None


def _mlp(of: Any, product: Product, hidden: torch.Tensor) -> torch.Tensor:
    parts = (of.gate_proj, of.up_proj)
    bias = None if of.gate_proj.bias is None else torch.cat([one.bias for one in parts])
    gate, up = product(hidden, torch.cat([one.weight for one in parts]), bias).chunk(2, dim=-1)
    return product(of.act_fn(gate) * up, of.down_proj.weight, of.down_proj.bias)


def _apart(of: Any, product: Product, hidden: torch.Tensor) -> torch.Tensor:
    gate, up = (product(hidden, one.weight, one.bias) for one in (of.gate_proj, of.up_proj))
    return product(of.act_fn(gate) * up, of.down_proj.weight, of.down_proj.bias)
