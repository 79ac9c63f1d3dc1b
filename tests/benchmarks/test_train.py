"""The benchmark of the trainer: points, their order, their rows, the page, and the link that is slowed down."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.train import expect, link, points, report, trace
from benchmarks.train.point import Point
from benchmarks.train.rows import Spread, read, rows
from benchmarks.train.run import main, schedule
from workloads.train.errors import UsageError

A, B, C = (Point(name=name, recipe="ours", micro_batch=size) for name, size in (("a", 1), ("b", 2), ("c", 3)))


def line(point: Point, number: int = 0, outcome: str = "ok", rate: float = 100.0, **more: Any) -> dict[str, Any]:
    found = {"point": point.model_dump(mode="json"), "key": point.key, "round": number, "outcome": outcome}
    if outcome != "ok":
        return {**found, "said": "out of memory", **more}
    return {
        **found,
        "tokens_per_second_per_rank": rate,
        "step_seconds": {"median": 50.0 / rate},
        "mfu": 0.5,
        "model_flops": 300e12,
        "gemm_flops": 600e12,
        "memory_reserved": 10**10,
        "link_gbps": None,
        "expected": {"step_seconds": 0.55},
        "attention": "cudnn_attention",
        "features": [],
        "parameters": 1_543_714_304,
        "world_size": 1,
        "gpu": "NVIDIA H200",
        "torch": "2.11.0",
        "nccl": "2.28.9",
        "transformers": "5.13.0",
        "date": "2026-12-01T00:00:00+00:00",
        **more,
    }


def test_rounds_go_there_and_back() -> None:
    assert [point.name for _, point in schedule([A, B, C], 2, [])] == ["a", "b", "c", "c", "b", "a"]


def test_it_goes_on_where_it_was_cut_off() -> None:
    done = [line(A), line(B, outcome="oom"), line(C, outcome="failed")]
    assert [(number, point.name) for number, point in schedule([A, B, C], 2, done)] == [(0, "c"), (1, "c"), (1, "a")]


def test_another_configuration_is_another_point() -> None:
    other = A.model_copy(update={"attention": "flash"})
    assert [point for _, point in schedule([other], 1, [line(A)])] == [other]


def test_a_row_is_the_median_with_least_and_most() -> None:
    (row,) = rows([line(A, 0, rate=90), line(A, 1, rate=110), line(A, 2, rate=97), line(A, 3, outcome="failed")])
    assert row.rate == Spread(median=97, least=90, most=110)
    assert (row.runs, row.outcome, row.gemm_part) == (3, "ok", 0.5)


def test_out_of_memory_is_a_result() -> None:
    (row,) = rows([line(A, outcome="oom")])
    assert (row.outcome, row.rate) == ("oom", None)


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text('{"a": 1}\n{"a"')
    assert read(log) == [{"a": 1}]
    log.write_text('{"a"\n{"a": 1}\n')
    with pytest.raises(UsageError, match="line 1"):
        read(log)


def test_lists_have_a_name_for_each_point_and_nothing_that_does_not_go_together() -> None:
    sizes = {"two-gpus": 2, "two-nodes": 2, "eight-gpus": 8}
    for name in points.LISTS:
        found = points.read(name)
        assert len({point.name for point in found}) == len(found)
        assert [problem for point in found for problem in point.problems(sizes.get(name, 1))] == []


def test_wrong_points_are_named_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "points.json"
    file.write_text(json.dumps([{"name": "a", "recipe": "theirs", "micro_batch": 0}]))
    out = tmp_path / "out"
    assert main(["--points", str(file), "--json-lines", str(out)]) == 2
    said = capsys.readouterr().err
    assert "recipe" in said
    assert "micro_batch" in said
    file.write_text(json.dumps([{"name": "a", "recipe": "titan", "nodes": 3, "levers": ["fp8"]}]))
    assert main(["--points", str(file), "--gpus", "2", "--json-lines", str(out)]) == 2
    said = capsys.readouterr().err
    assert "a: nodes: found 3; allowed: a divisor of 2 ranks" in said
    assert "a: levers: found titan with ours" in said


def test_nothing_is_started_that_would_not_end_in_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--points", "small", "--seconds", "1", "--rounds", "1", "--json-lines", str(tmp_path / "out")]) == 1
    assert "left for want of time: ours, round 1" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_a_prediction_and_a_choice_for_a_point() -> None:
    point = Point(name="a", recipe="ours", micro_batch=4, accumulation=4, nodes=2, strategy="hsdp")
    machine = expect.machine_of(
        point, 8, device_name="NVIDIA H200", gemm=790e12, memory_bytes=150 * 10**9, link_gbps=40.0, in_node_gbps=3000.0
    )
    assert (machine.cross_node_bandwidth, machine.in_node_bandwidth) == (5e9, 375e9)
    found: Any = expect.expected(point, 8, machine)
    assert found["chosen"].split("/")[1:3] == ["2x4", "4x4"]
    # 2 x 1/2 x 4 B x 1.54e9 at 5 GB/s.
    assert found["network_bytes"] == pytest.approx(6.17e9, rel=0.01)
    assert found["step_seconds"] > 1.0


def test_kernels_have_kinds() -> None:
    names = {
        "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT": "matrix products",
        "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16": "attention",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL": "communication",
        "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_1": "fused",
        "Memcpy DtoD (Device -> Device)": "copies",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdam>": "optimizer",
    }
    assert {name: trace.kind_of(name) for name in names} == names


def test_the_page_has_what_one_needs_to_repeat_it(tmp_path: Path) -> None:
    base = Point(name="T+", recipe="titan", micro_batch=24, reshard=False)
    log = tmp_path / "log.jsonl"
    lines = [line(base, rate=100), line(A, rate=106), line(B, outcome="oom")]
    log.write_text("".join(json.dumps(one) + "\n" for one in lines))
    assert report.main([str(log), "--page", str(tmp_path / "docs" / "train.md")]) == 0
    text = (tmp_path / "docs" / "train.md").read_text()
    for wanted in (
        "NVIDIA H200",
        "torch 2.11.0",
        "(../log.jsonl)",
        "| 1.06 |",
        "1 of 2 predictions",
        "b: recipe ours; micro_batch 2",
    ):
        assert wanted in text
    picture = (tmp_path / "docs" / "train.svg").read_text()
    assert picture.count("<circle") == 2
    assert "T+: predicted 0.55 s, measured 0.5 s" in picture


def test_a_log_without_a_measured_row_makes_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(line(A, outcome="oom")) + "\n")
    assert report.main([str(log), "--page", str(tmp_path / "page.md")]) == 2
    assert "no row that was measured" in capsys.readouterr().err
    assert not (tmp_path / "page.md").exists()


def test_pretended_nodes_have_hosts_and_sockets(tmp_path: Path) -> None:
    assert [link.host_id(rank, 4, 2) for rank in range(4)] == ["node-0", "node-0", "node-1", "node-1"]
    shaped = link.environment(2, 2, 40.0, tmp_path / "lib.so", tmp_path / "shared")
    assert (shaped["NCCL_NET"], shaped["SHAPER_GBPS"], shaped["LD_PRELOAD"]) == (
        "Socket",
        "40",
        str(tmp_path / "lib.so"),
    )
    assert "LD_PRELOAD" not in link.environment(2, 2, 40.0, None, tmp_path / "shared")
    assert "NCCL_NET" not in link.environment(1, 4, None, None, tmp_path / "shared")


_SENDER = """
import socket, sys
stream = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
stream.setblocking(sys.argv[2] == "blocking")
data = memoryview(bytes(4_000_000))
while data:
    try:
        data = data[stream.send(data):]
    except BlockingIOError:
        pass
"""


@pytest.mark.parametrize("kind", ["blocking", "polling"])
def test_a_shaped_link_is_as_slow_as_asked(tmp_path: Path, kind: str) -> None:
    library = link.compiled_shaper(tmp_path)
    if library is None:
        pytest.skip("no C compiler here")
    received: list[float] = []

    def receive(server: socket.socket) -> None:
        stream, _ = server.accept()
        total, started = 0, time.monotonic()
        while some := stream.recv(1 << 20):
            total += len(some)
        assert total == 4_000_000
        received.append(time.monotonic() - started)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=receive, args=(server,))
        thread.start()
        # 4 MB at 64 Mb/s are half a second.
        shaped = link.environment(2, 1, 0.064, library, tmp_path / "shared") | {"LOCAL_RANK": "1"}
        command = [sys.executable, "-c", _SENDER, str(server.getsockname()[1]), kind]
        subprocess.run(command, env={**os.environ, **shaped}, check=True, timeout=60)
        thread.join()
    assert received[0] > 0.45


@pytest.mark.skipif(torch.cuda.is_available(), reason="the rows of a CPU")
def test_ours_runs_on_a_cpu(tmp_path: Path) -> None:
    file, out = tmp_path / "points.json", tmp_path / "out"
    ours = next(point for point in points.read("small") if point.recipe == "ours")
    file.write_text(json.dumps([ours.model_dump(mode="json")]))
    arguments = ["--points", str(file), "--rounds", "1", "--json-lines", str(out), "--cache", str(tmp_path / "cache")]
    assert main(arguments) == 0, (tmp_path / "out.log").read_text()
    (found,) = read(out)
    assert found["losses"][0] == pytest.approx(6.27, abs=0.05)
    assert found["losses"][1] < found["losses"][0]
    assert found["parameters"] == 107_072
    assert found["features"] == ["the head's gradient is added after its product"]
    # What is there is not measured anew.
    assert main(arguments) == 0
    assert len(read(out)) == 1
