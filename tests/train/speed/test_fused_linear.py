"""Fused products give what the separate ones do: loss and every gradient, also recomputed and compiled."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

from typing import Any, cast

import pytest
import torch

from workloads.train import activation_checkpoint
from workloads.train.model import CausalLM, materialise, skeleton
from workloads.train.model_shape import BUILT_IN
from workloads.train.speed import fused_linear, head_loss

LENGTH, WORDS = 16, 320


def model(name: str) -> CausalLM:
    return skeleton(BUILT_IN[name], "mask")


def step(module: CausalLM, documents: int = 1) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    materialise(module, torch.device("cpu"), weights=None, seed=3)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith(".bias"):
                parameter.copy_(torch.linspace(-0.5, 0.5, len(parameter)))
    tokens = torch.randint(WORDS, (2, LENGTH + 1), generator=torch.Generator().manual_seed(5))
    positions = torch.arange(LENGTH // documents).repeat(2, documents)
    loss, count = cast(tuple[Any, Any], module(tokens[:, :-1], positions, tokens[:, 1:]))
    (loss / count).backward()
    gradients = {name: one.grad for name, one in module.named_parameters() if one.grad is not None}
    return loss.detach(), gradients


def same(
    found: tuple[torch.Tensor, dict[str, torch.Tensor]], wanted: tuple[torch.Tensor, dict[str, torch.Tensor]]
) -> None:
    torch.testing.assert_close(found[0], wanted[0])
    assert list(found[1]) == list(wanted[1])
    for name, gradient in wanted[1].items():
        torch.testing.assert_close(
            found[1][name], gradient, rtol=1e-4, atol=1e-7, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("name", ["tiny-qwen2", "tiny-llama"])
@pytest.mark.parametrize("documents", [1, 2])
def test_same_loss_and_gradients(name: str, documents: int) -> None:
    module = model(name)
    fused_linear.apply(module)
    same(step(module, documents), step(model(name), documents))


def test_same_when_recomputed_and_compiled() -> None:
    module = model("tiny-qwen2")
    fused_linear.apply(module)
    for block in module.blocks:
        activation_checkpoint.apply(block, "selective")
        block.forward = torch.compile(block.forward, fullgraph=True, dynamic=False, backend="aot_eager")
    same(step(module), step(model("tiny-qwen2")))


def test_parameters_keep_their_names() -> None:
    module = model("tiny-qwen2")
    names = [name for name, _ in module.named_parameters()]
    fused_linear.apply(module)
    assert [name for name, _ in module.named_parameters()] == names


def test_every_product_of_a_block_goes_through_the_one_given() -> None:
    shapes: list[tuple[int, ...]] = []

    def product(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        shapes.append(tuple(weight.shape))
        return torch.nn.functional.linear(hidden, weight, bias)

    module = model("tiny-qwen2")
    fused_linear.apply(module, product)
    step(module)
    assert shapes == [(192, 96), (96, 96), (512, 96), (96, 256)] * 2


@pytest.mark.parametrize("name", ["tiny-qwen2", "tiny-llama"])
@pytest.mark.parametrize("rows", [7, 32])
def test_head_loss_is_the_loss(name: str, rows: int) -> None:
    module = model(name)
    module.chunk_rows = rows
    head_loss.apply(module, compile=False)
    same(step(module), step(model(name)))


def test_gate_and_up_can_stay_apart() -> None:
    module = model("tiny-qwen2")
    fused_linear.apply(module, gate_up=False)
    same(step(module), step(model("tiny-qwen2")))
