"""What holds for every test."""

import os

import pytest

# Pipes are buffered on most machines: a program that forgets to flush must hang here too.
os.environ.pop("PYTHONUNBUFFERED", None)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse to run where groups group nothing: tests that share a stack would each start one."""
    if not getattr(config.option, "loadgroup", False):
        return
    lost = [item.nodeid for item in items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid]
    if lost:
        raise pytest.UsageError(f"pytest-xdist: {lost[0]} is in no group; pin a pytest whose node ids it can write")
