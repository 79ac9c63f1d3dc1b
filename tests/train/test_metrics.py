"""What a step says to programs and to people."""

import time

import pytest
import torch

from workloads.train.metrics import Meter, StepMetrics, short
from workloads.train.model_shape import BUILT_IN, shape_of

METRICS = StepMetrics(
    step=10,
    loss=2.3456789,
    grad_norm=1.234,
    learning_rate=2e-5,
    tokens=65_000,
    skipped=False,
    seconds=2.5,
    tokens_per_second=26_000.0,
    tokens_per_second_per_rank=3_250.0,
    mfu=0.3012,
    memory_bytes=20 * 2**30,
    data_wait=0.0,
)


def test_a_step_in_one_line() -> None:
    assert METRICS.line() == (
        "step     10  loss   2.3457  norm      1.23  lr 2.00e-05  26k tokens/s (3.25k a rank)  2.500 s  mfu 30.1%  20.0 GiB"
    )


def test_what_is_not_there_is_not_said() -> None:
    line = StepMetrics.of(
        {**METRICS.event(), "mfu": None, "memory_bytes": None, "skipped": True, "data_wait": 0.2}
    ).line()
    assert "mfu" not in line
    assert "GiB" not in line
    assert line.endswith("data wait 0.200 s  SKIPPED")


def test_an_event_gives_the_metrics_back() -> None:
    assert StepMetrics.of(METRICS.event()) == METRICS


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (999.0, "999"), (28_134.0, "28.1k"), (3.6e6, "3.6M"), (9.9e14, "990T")]
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert short(value) == text


def test_rates_are_of_the_steps_since_the_last_reading() -> None:
    meter = Meter(shape_of(BUILT_IN["tiny-qwen2"]), 64, torch.device("cpu"), 2)
    for _ in range(2):
        meter.add(tokens=100, positions=128, data_wait=0.5)
        time.sleep(0.05)
    found = meter.read(step=2, loss=1.0, grad_norm=1.0, learning_rate=1.0, tokens=100, skipped=False)
    assert found.seconds == pytest.approx(0.05, rel=0.5)
    assert found.tokens_per_second == pytest.approx(100 / found.seconds, rel=0.01)
    assert found.tokens_per_second_per_rank == pytest.approx(found.tokens_per_second / 2, rel=0.01)
    assert found.data_wait == 0.5
    assert (found.mfu, found.memory_bytes) == (None, None)
    meter.add(tokens=1, positions=1, data_wait=0.0)
    assert meter.read(step=3, loss=1, grad_norm=1, learning_rate=1, tokens=1, skipped=False).data_wait == 0.0
