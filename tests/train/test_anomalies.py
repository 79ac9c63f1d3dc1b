"""Which steps are not trusted."""

import math

import pytest

from workloads.train.anomalies import Anomalies
from workloads.train.sections import AnomalyConfig


@pytest.mark.parametrize(("loss", "norm"), [(math.nan, 1.0), (1.0, math.inf), (-math.inf, math.nan)])
def test_what_is_no_number_is_an_anomaly(loss: float, norm: float) -> None:
    found = Anomalies(AnomalyConfig()).judge(loss, norm)
    assert found == f"the loss is {loss:g} and the norm of the gradient {norm:g}; allowed: finite numbers"


def test_a_norm_far_above_the_last_ones_is_one() -> None:
    anomalies = Anomalies(AnomalyConfig(sigma=4.0))
    for number in range(20):
        assert anomalies.judge(1.0, 1.0 + 0.1 * (number % 2)) is None
    assert anomalies.judge(1.0, 1.24) is None, "within four deviations of 0.05"
    found = anomalies.judge(1.0, 2.0)
    assert found is not None
    assert found.startswith("the norm of the gradient is 2; allowed: ")
    assert anomalies.judge(1.0, 1.1) is None, "an anomaly does not move the mean"


def test_without_sigma_any_finite_norm_is_trusted() -> None:
    anomalies = Anomalies(AnomalyConfig())
    assert [anomalies.judge(1.0, norm) for norm in (*[1.0] * 20, 1e9)] == [None] * 21


def test_the_first_norms_are_not_judged() -> None:
    anomalies = Anomalies(AnomalyConfig(sigma=1.0))
    assert [anomalies.judge(1.0, 10.0**number) for number in range(10)] == [None] * 10


def test_only_a_window_is_remembered() -> None:
    anomalies = Anomalies(AnomalyConfig(sigma=3.0, window=10))
    for norm in [100.0, 1.0] * 5 + [1.0, 1.1] * 5:
        anomalies.judge(1.0, norm)
    assert anomalies.judge(1.0, 5.0) is not None


def test_skipping_ends_after_so_many_in_a_row() -> None:
    anomalies = Anomalies(AnomalyConfig(action="skip", most_skipped=3))
    assert [anomalies.skip(), anomalies.skip()] == [True, True]
    anomalies.judge(1.0, 1.0)
    assert [anomalies.skip(), anomalies.skip(), anomalies.skip()] == [True, True, False]
    assert anomalies.skipped == 5


def test_a_resumed_run_judges_alike() -> None:
    first, second = Anomalies(AnomalyConfig(sigma=4.0)), Anomalies(AnomalyConfig(sigma=4.0))
    for number in range(15):
        first.judge(1.0, 1.0 + 0.1 * (number % 2))
    first.skip()
    second.resume(first.state())
    assert second.skipped == 1
    assert second.judge(1.0, 1.5) == first.judge(1.0, 1.5)
    assert second.judge(1.0, 1.5) is not None
