"""Model FLOPs: the numbers of the convention."""

from dataclasses import replace

import pytest

from tests.train.plan.plan_support import LLAMA, QWEN
from workloads.train.plan.flops import flops_per_token, recomputed_part


@pytest.mark.parametrize(("sequence", "gigaflops"), [(128, 9.33), (1024, 9.79), (2048, 10.32), (4096, 11.37)])
def test_qwen_1_5b(sequence: int, gigaflops: float) -> None:
    assert flops_per_token(QWEN, sequence) / 1e9 == pytest.approx(gigaflops, abs=0.006)


def test_six_for_each_parameter_and_twelve_for_attention() -> None:
    assert flops_per_token(QWEN, 2048) == 6 * QWEN.num_parameters + 12 * 28 * 12 * 128 * 2048


def test_a_head_of_its_own_costs_what_a_tied_one_does() -> None:
    """The lookup multiplies nothing: an untied embedding adds parameters and no FLOPs."""
    assert flops_per_token(replace(QWEN, tied=False), 2048) == flops_per_token(QWEN, 2048)
    assert flops_per_token(LLAMA, 1) < 6 * LLAMA.num_parameters


def test_full_checkpointing_computes_the_forward_pass_of_the_blocks_again() -> None:
    assert recomputed_part(QWEN, 2048) == pytest.approx(0.288, abs=0.001)
