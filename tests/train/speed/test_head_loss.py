"""The loss whose head gradient is added up inside the product."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import pytest
import torch

from workloads.train import loss
from workloads.train.data.batch import IGNORED
from workloads.train.speed import head_loss


def inputs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    hidden = torch.randn(23, 16, generator=generator).to(dtype).requires_grad_()
    weight = torch.randn(40, 16, generator=generator).to(dtype).requires_grad_()
    labels = torch.randint(40, (23,), generator=generator)
    labels[::5] = IGNORED
    return hidden, weight, labels


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_equals_cross_entropy(dtype: torch.dtype, tolerance: float) -> None:
    hidden, weight, labels = inputs(dtype)
    found = head_loss.summed_loss(hidden, weight, labels, rows=8)
    (found / 18).backward()
    wide_hidden, wide_weight = (one.detach().float().requires_grad_() for one in (hidden, weight))
    wanted = torch.nn.functional.cross_entropy(
        wide_hidden @ wide_weight.t(), labels, ignore_index=IGNORED, reduction="sum"
    )
    (wanted / 18).backward()
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)
    assert hidden.grad is not None
    assert weight.grad is not None
    assert wide_hidden.grad is not None
    assert wide_weight.grad is not None
    torch.testing.assert_close(hidden.grad.float(), wide_hidden.grad, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(weight.grad.float(), wide_weight.grad, rtol=tolerance, atol=tolerance)


def test_without_gradients_it_is_the_other_loss() -> None:
    hidden, weight, labels = inputs(torch.float32)
    with torch.no_grad():
        found = head_loss.summed_loss(hidden, weight, labels, rows=8)
        torch.testing.assert_close(found, loss.summed_loss(hidden, weight, labels, rows=8))


def test_a_cpu_adds_after_the_product() -> None:
    assert not head_loss.adds_in_fp32("cpu", torch.bfloat16)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
def test_on_cuda_the_parts_are_not_rounded() -> None:
    hidden, weight, labels = inputs(torch.bfloat16)
    here = [one.detach().cuda().requires_grad_() for one in (hidden, weight)]
    head_loss.summed_loss(here[0], here[1], labels.cuda(), rows=8).backward()
    head_loss.summed_loss(hidden, weight, labels, rows=8).backward()
    for one, other in zip(here, (hidden, weight), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        torch.testing.assert_close(one.grad.cpu().float(), other.grad.float(), rtol=3e-2, atol=3e-2)
