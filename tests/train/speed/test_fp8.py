"""Products in fp8."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import pytest
import torch

from workloads.train.errors import UsageError
from workloads.train.speed import fp8

FP8 = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 9)


def test_a_device_without_fp8_is_named() -> None:
    with pytest.raises(UsageError, match=r"fp8: found cpu; allowed: .* 8\.9 or newer; leave fp8 out"):
        fp8.check(torch.device("cpu"))


@pytest.mark.parametrize("dtype", [fp8.FORWARD, fp8.BACKWARD])
def test_scaling_uses_the_whole_range(dtype: torch.dtype) -> None:
    tensor = torch.tensor([[1e-4, -3e-3], [2e-3, 1e-3]])
    small, scale = fp8.scaled(tensor, dtype)
    assert small.float().abs().max() == torch.finfo(dtype).max
    torch.testing.assert_close(small.float() * scale, tensor, rtol=0.13, atol=0.0)


def test_zeros_stay_zeros() -> None:
    small, scale = fp8.scaled(torch.zeros(2, 2), fp8.FORWARD)
    assert (small.float() * scale == 0).all()


def test_shapes_that_no_tensor_core_takes_are_left_alone() -> None:
    hidden, weight, bias = torch.randn(2, 3, 8), torch.randn(5, 8), torch.randn(5)
    torch.testing.assert_close(fp8.linear(hidden, weight, bias), torch.nn.functional.linear(hidden, weight, bias))


@pytest.mark.skipif(not FP8, reason="no GPU with fp8")
def test_product_and_gradients_are_near_those_of_bf16() -> None:
    generator = torch.Generator("cuda").manual_seed(1)
    hidden, weight, slope = (
        torch.randn(*size, device="cuda", generator=generator).bfloat16()
        for size in ((2, 64, 128), (96, 128), (2, 64, 96))
    )
    found, wanted = [[one.clone().requires_grad_() for one in (hidden, weight)] for _ in range(2)]
    out = fp8.linear(found[0], found[1])
    right = torch.nn.functional.linear(wanted[0], wanted[1])
    out.backward(slope)
    right.backward(slope)
    pairs = [(out, right), (found[0].grad, wanted[0].grad), (found[1].grad, wanted[1].grad)]
    for one, other in pairs:
        assert one is not None
        assert other is not None
        wrong = torch.dist(one.float(), other.float()) / torch.dist(other.float(), torch.zeros_like(other.float()))
        assert wrong.item() < 0.06
