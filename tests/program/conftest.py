"""The program, run once for all tests that only read what it registered."""

import pytest

from tests.program.recorder import World, run_program


@pytest.fixture(scope="session")
def dev() -> World:
    return run_program()


@pytest.fixture(scope="session")
def p5() -> World:
    return run_program({"efa-ray-train:gpuInstanceType": "p5.48xlarge", "efa-ray-train:gpuNodeCount": "4"})
