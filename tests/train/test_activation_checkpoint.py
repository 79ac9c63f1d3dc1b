"""What a block's backward computes again, and that a compiled block is one graph."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.train.parallel_support import CPU, Case, build
from workloads.train import activation_checkpoint
from workloads.train.attention import Kind
from workloads.train.model import CausalLM, materialise, skeleton
from workloads.train.model_shape import BUILT_IN
from workloads.train.plan.plan import ActivationCheckpoint


class Counting(TorchDispatchMode):
    """Count operators by name."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def model(policy: ActivationCheckpoint) -> CausalLM:
    module = build(Case())
    materialise(module, CPU, weights=None, seed=1)
    for block in module.blocks:
        activation_checkpoint.apply(block, policy)
    return module


def backward(policy: ActivationCheckpoint) -> tuple[Counter[str], torch.Tensor]:
    """Return the operators of a backward pass, and a gradient."""
    module = model(policy)
    tokens = torch.arange(32).view(2, 16)
    hidden = module.hidden(tokens, torch.arange(16).expand(2, 16))
    with Counting() as counting:
        hidden.square().sum().backward()
    gradient = module.get_parameter("model.layers.0.mlp.up_proj.weight").grad
    assert gradient is not None
    return counting.calls, gradient


def test_gradients_are_the_same_with_any_policy() -> None:
    wanted = backward("none")[1]
    assert backward("selective")[1].equal(wanted)
    assert backward("full")[1].equal(wanted)


def test_none_computes_nothing_again() -> None:
    assert backward("none")[0]["silu"] == 0


def test_selective_computes_activations_again_and_no_matrix_product_or_attention() -> None:
    none, selective = backward("none")[0], backward("selective")[0]
    assert selective["silu"] == 2, "one in each block"
    assert selective["mm"] == none["mm"]
    assert selective["addmm"] == none["addmm"] == 0
    assert selective["_scaled_dot_product_flash_attention_for_cpu"] == 0


def test_full_computes_all_of_it_again() -> None:
    none, full = backward("none")[0], backward("full")[0]
    assert full["silu"] == 2
    assert full["mm"] + full["addmm"] == none["mm"] + 2 * 7 - 2, "the last product of a block is not needed"
    assert full["_scaled_dot_product_flash_attention_for_cpu"] == 2


@pytest.mark.parametrize("policy", ["none", "selective", "full"])
@pytest.mark.parametrize(("kind", "num_documents"), [("varlen", 9), ("varlen", 4), ("mask", 9)])
def test_all_blocks_are_one_graph_without_a_break(kind: Kind, num_documents: int, policy: ActivationCheckpoint) -> None:
    """On the meta device, where the operators of a GPU are known by their shapes."""
    from torch._dynamo import reset
    from torch._dynamo.utils import counters

    reset()
    counters.clear()
    module = skeleton(BUILT_IN["tiny-qwen2"], kind).to(torch.bfloat16)
    for block in module.blocks:
        activation_checkpoint.apply(block, policy)
        block.forward = torch.compile(block.forward, fullgraph=True, dynamic=False, backend="aot_eager")
    tokens = torch.zeros(4, 64, dtype=torch.int64, device="meta")
    module.hidden(tokens, tokens, num_documents).float().sum().backward()
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]
    assert module.get_parameter("model.layers.1.mlp.up_proj.weight").grad is not None
