"""One line: who wrote it, and what is decoration."""

import pytest

from workloads.train.transport.lines import read

PLAIN = "node-0:152:386 [3] NCCL INFO Using network Libfabric"


@pytest.mark.parametrize(
    "line",
    [
        PLAIN,
        f"(RayTrainWorker pid=152, ip=10.0.0.5) {PLAIN}",
        f"\x1b[36m(RayTrainWorker(rank=3) pid=152, ip=10.0.0.5)\x1b[0m {PLAIN}",
        f"2026-05-22T12:24:39.282-07:00 stdout F {PLAIN}",
        f"[2026-05-22 12:24:39] {PLAIN}",
        f"[default3]:{PLAIN}\r",
        f"step:  50%|█████     | 5/10\r{PLAIN}  ",
    ],
)
def test_decoration_is_taken_off(line: str) -> None:
    found = read(line)
    assert found is not None
    assert (found.host, found.pid, found.thread, found.message) == ("node-0", 152, 386, "Using network Libfabric")
    assert (found.warning, found.repeated, found.damaged) == (False, 1, False)
    assert found.ip == ("10.0.0.5" if "ip=" in line else "")


@pytest.mark.parametrize(
    "where",
    [
        "[0] int nccl_net_ofi_create_plugin(nccl_net_ofi_plugin_t**):259 NCCL WARN ",
        "[0] ofi_init:700 NCCL WARN ",
        "[0] src/plugin/net.cc:349 (ncclNetInit) NCCL WARN ",
        "[0] NCCL WARN ",
    ],
)
def test_a_warning_has_its_function_before_it(where: str) -> None:
    found = read(f"[2025-12-28 16:04:25] node-0:152:386 {where}NET/OFI aws-ofi-nccl initialization failed")
    assert found is not None
    assert (found.warning, found.message) == (True, "NET/OFI aws-ofi-nccl initialization failed")


@pytest.mark.parametrize("more", ["", " (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to ...)\x1b[0m"])
def test_a_folded_line_says_for_how_many_it_stands(more: str) -> None:
    found = read(
        f"\x1b[36m(RayTrainWorker pid=152, ip=10.0.0.5)\x1b[0m {PLAIN}\x1b[32m [repeated 15x across cluster]{more}"
    )
    assert found is not None
    assert (found.repeated, found.message) == (15, "Using network Libfabric")


@pytest.mark.parametrize(
    "line",
    [
        "a:1:1 [0] NCCL INFO Using networb:2:2 [1] NCCL INFO Using network Libfabric",
        "a:1:1 [0] NCb:2:2 [1] NCCL INFO Using network Libfabric",
        "a:1:1 [0] NCCL INFO Using network Libfabricb:2:2 [1] NCC",
    ],
)
def test_two_processes_in_one_line_are_evidence_of_neither(line: str) -> None:
    found = read(line)
    assert found is not None
    assert found.damaged


@pytest.mark.parametrize("line", ["", "NCCL version 2.29.7+cuda13.0", "loss 2.3", "NET/OFI Selected provider is efa"])
def test_a_line_without_a_prefix_is_of_nobody(line: str) -> None:
    assert read(line) is None
