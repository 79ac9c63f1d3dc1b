"""The device of a rank."""

import pytest

from workloads.train.device import find_device
from workloads.train.errors import UsageError


def test_cuda_is_refused_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(
        UsageError, match=r"^--device: found cuda, but .* has no CUDA device that torch can use; allowed: cpu"
    ) as caught:
        find_device("cuda")
    assert caught.value.exit_code == 2
    assert find_device("cpu").type == "cpu"
