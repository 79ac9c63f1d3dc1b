"""The chunked loss is the loss: value, gradients, and what does not count."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import pytest
import torch

from workloads.train.data.batch import IGNORED
from workloads.train.loss import summed_loss

TOKENS, WIDTH, WORDS = 50, 12, 40


def inputs(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    hidden = torch.randn(TOKENS, WIDTH, generator=generator).to(dtype).requires_grad_()
    weight = torch.randn(WORDS, WIDTH, generator=generator).to(dtype).requires_grad_()
    labels = torch.randint(WORDS, (TOKENS,), generator=generator)
    labels[::3] = IGNORED
    return hidden, weight, labels


def whole(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(
        (hidden @ weight.t()).float(), labels, ignore_index=IGNORED, reduction="sum"
    )


@pytest.mark.parametrize("rows", [1, 7, 25, 50, 1000])
def test_any_chunk_gives_the_loss_and_the_gradients_of_whole_logits(rows: int) -> None:
    hidden, weight, labels = inputs()
    wanted = whole(hidden, weight, labels)
    gradients = torch.autograd.grad(wanted * 0.25, (hidden, weight))
    found = summed_loss(hidden, weight, labels, rows=rows)
    torch.testing.assert_close(found, wanted)
    for one, other in zip(torch.autograd.grad(found * 0.25, (hidden, weight)), gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_labels_that_do_not_count_have_no_gradient() -> None:
    hidden, weight, labels = inputs()
    summed_loss(hidden, weight, labels, rows=16).backward()
    assert hidden.grad is not None
    assert not hidden.grad[::3].any()
    assert hidden.grad[1].any()


def test_nothing_that_counts_is_a_loss_of_zero() -> None:
    hidden, weight, labels = inputs()
    loss = summed_loss(hidden, weight, torch.full_like(labels, IGNORED), rows=16)
    loss.backward()
    assert loss.item() == 0.0
    assert weight.grad is not None
    assert not weight.grad.any()


def test_evaluation_gives_the_same_number() -> None:
    hidden, weight, labels = inputs()
    with torch.no_grad():
        found = summed_loss(hidden, weight, labels, rows=16)
    torch.testing.assert_close(found, whole(hidden, weight, labels).detach())


def test_in_bf16_the_sum_is_fp32_and_the_scale_is_not_rounded() -> None:
    """1/3000 rounded to bf16 is wrong by 0.2 %, which every gradient of the blocks would be."""
    hidden, weight, labels = inputs(torch.bfloat16)
    loss = summed_loss(hidden, weight, labels, rows=16)
    assert loss.dtype == torch.float32
    (unscaled,) = torch.autograd.grad(loss, hidden, retain_graph=True)
    scale = torch.tensor(1 / 3000)
    (scaled,) = torch.autograd.grad(loss, hidden, grad_outputs=scale)
    assert scaled.dtype == torch.bfloat16
    ratio = float(scaled.double().abs().sum() / unscaled.double().abs().sum() * 3000)
    assert ratio == pytest.approx(1.0, abs=3e-4)


def test_the_gradient_of_the_head_is_summed_in_fp32() -> None:
    """256 equal chunks: a sum in bf16 stops growing where a part is less than half a unit of its last place."""
    hidden = torch.ones(256 * 4, 2, dtype=torch.bfloat16)
    weight = torch.zeros(2, 2, dtype=torch.bfloat16, requires_grad=True)
    labels = torch.zeros(256 * 4, dtype=torch.int64)
    summed_loss(hidden, weight, labels, rows=1).backward()
    assert weight.grad is not None
    assert weight.grad[1].tolist() == [512.0, 512.0]
