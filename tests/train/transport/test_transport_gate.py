"""The gate and the watch over four ranks of gloo, with files as NCCL would write them: two nodes of two GPUs."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tests.train.rank_pool import Ranks
from tests.train.transport.nccl_logs import ASKED, EFA, FALLBACK, Rank, cluster, communicator, info, plugin
from workloads.train.errors import TrainingError
from workloads.train.transport.config import Expect, TransportConfig
from workloads.train.transport.evidence import RankLog
from workloads.train.transport.gate import check, checking, debug_environment, prepare
from workloads.train.transport.report import TransportReport
from workloads.train.transport.watch import Watch

CPU = torch.device("cpu")


class FakeNccl(RankLog):
    """A log to which NCCL adds a communicator with every collective on a new group."""

    def __init__(self, log: RankLog, file: Path, batches: list[list[str]]) -> None:
        super().__init__(file.parent, file.name)
        self._file, self._batches = file, batches

    def read(self):
        if self._batches:
            with self._file.open("a") as file:
                # A line that is not written to its end yet is read later.
                text = "\n".join(self._batches.pop(0)) + "\n"
                file.write(text)
        return super().read()


def groups(*, node_first: bool = True) -> dict[str, dist.ProcessGroup]:
    """Make the groups of a mesh of two nodes with two GPUs; the other way round, dp_replicate stays inside a node."""
    replicas, shards = [(0, 2), (1, 3)], [(0, 1), (2, 3)]
    if not node_first:
        replicas, shards = shards, replicas
    mine: dict[str, dist.ProcessGroup] = {"world": dist.group.WORLD}  # type: ignore[dict-item]
    for name, all_ranks in (("dp_replicate", replicas), ("dp_shard", shards)):
        for one in all_ranks:
            made = dist.new_group(list(one))
            if dist.get_rank() in one:
                assert isinstance(made, dist.ProcessGroup)
                mine[name] = made
    return mine


def lines_of(me: Rank, members: list[Rank], number: int, pid: int, *, connect: bool = True) -> list[str]:
    return [
        line.replace(f":{me.pid}:", f":{pid}:") for line in communicator(me, members, number=number, connect=connect)
    ]


def run(
    rank: int,
    folder: str,
    networks: list[str],
    expect: Expect,
    options: Mapping[str, object],
) -> tuple[TransportReport | str, list[list[str]] | str]:
    """Be a rank: prepare, let a fake NCCL write, check, and look twice; return what was found, or the error's words."""
    config, pid = TransportConfig(expect=expect, log_dir=folder), os.getpid()
    before = dict(os.environ)
    try:
        log = prepare(config, rank)
        file = Path(os.environ["NCCL_DEBUG_FILE"].replace("%h", "host").replace("%p", str(pid)))
        everyone = cluster(2, 2, lambda one: networks[one])
        me = everyone[rank]
        inside = bool(options.get("inside"))
        mine = groups(node_first=not inside)
        members = [[everyone[one] for one in dist.get_process_group_ranks(group)] for group in mine.values()]
        made = [lines_of(me, one, number, pid) for number, one in enumerate(members)]
        start = [line.replace(f":{me.pid}:", f":{pid}:") for line in plugin(me)]
        if options.get("silent") == rank:
            batches: list[list[str]] = []
        elif options.get("eager"):
            batches = [[*start, *(line for one in made for line in one)]]
        else:
            batches = [[*start, *made[0]], *made[1:]]
        if later := options.get("later"):
            fallen = cluster(2, 2, str(later))
            batches += [[], lines_of(fallen[rank], fallen, 7, pid)]
        fake = FakeNccl(log, file, batches)
        node = f"10.0.{me.node}.5"
        try:
            report = check(mine, expect, log=fake, device=CPU, node=node)
        except TrainingError as error:
            return str(error), ""
        watch = Watch(fake, expect, node=node)
        try:
            looks = [[one.name for one in watch.look()] for _ in range(2)]
        except TrainingError as error:
            return report, str(error)
        return report, looks
    finally:
        os.environ.clear()
        os.environ.update(before)


def all_say_the_same(found: list[tuple[TransportReport | str, object]]) -> TransportReport | str:
    assert all(one == found[0] for one in found)
    return found[0][0]


@pytest.mark.parametrize("eager", [False, True])
def test_efa_on_every_group_is_let_through(ranks: Ranks, tmp_path: Path, eager: bool) -> None:
    found = ranks(run, str(tmp_path), [EFA] * 4, "efa", {"eager": eager})
    report = all_say_the_same(found)
    assert isinstance(report, TransportReport)
    assert report.verdict == "efa"
    verdicts = {one.name: one.verdict for one in report.communicators}
    assert verdicts == {
        "world": "efa",
        "dp_replicate of ranks 0, 2": "efa",
        "dp_replicate of ranks 1, 3": "efa",
        "dp_shard of ranks 0, 1": "local",
        "dp_shard of ranks 2, 3": "local",
    }
    looks = found[0][1]
    assert len(looks[0]) == 5
    assert looks[1] == []


@pytest.mark.parametrize("network", [FALLBACK, "tcp", ASKED])
def test_all_ranks_stop_with_node_rank_and_line(ranks: Ranks, tmp_path: Path, network: str) -> None:
    text = all_say_the_same(ranks(run, str(tmp_path), [EFA, EFA, EFA, network], "efa", {}))
    assert isinstance(text, str)
    verdict = {FALLBACK: "socket-fallback", "tcp": "libfabric-tcp", ASKED: "tcp"}[network]
    assert text.startswith(f"transport.expect: found {verdict}: ")
    assert "on worker-1 (10.0.1.5)" in text
    assert f"line {tmp_path}/nccl-rank3-host-" in text
    assert "; allowed: efa; " in text
    assert "\n" not in text


def test_replicas_that_stay_on_a_node_prove_nothing(ranks: Ranks, tmp_path: Path) -> None:
    text = all_say_the_same(ranks(run, str(tmp_path), [EFA] * 4, "efa", {"inside": True}))
    assert isinstance(text, str)
    assert text.startswith("transport.expect: found local: communicator dp_replicate")
    assert "must cross nodes" in text


def test_a_rank_whose_file_is_missing_stops_all(ranks: Ranks, tmp_path: Path) -> None:
    text = all_say_the_same(ranks(run, str(tmp_path), [EFA] * 4, "efa", {"silent": 2}))
    assert isinstance(text, str)
    assert "found unknown" in text
    assert "10.0.1.5" in text


def test_the_tcp_arm_takes_sockets_only_where_they_are_asked_for(ranks: Ranks, tmp_path: Path) -> None:
    report = all_say_the_same(ranks(run, str(tmp_path / "a"), [ASKED] * 4, "tcp", {}))
    assert isinstance(report, TransportReport)
    assert report.verdict == "tcp"
    assert "found efa" in str(all_say_the_same(ranks(run, str(tmp_path / "b"), [EFA] * 4, "tcp", {})))
    assert "socket-fallback" in str(all_say_the_same(ranks(run, str(tmp_path / "c"), [FALLBACK] * 4, "tcp", {})))


def test_any_reports_and_stops_nothing(ranks: Ranks, tmp_path: Path) -> None:
    report = all_say_the_same(ranks(run, str(tmp_path), [FALLBACK] * 4, "any", {}))
    assert isinstance(report, TransportReport)
    assert (report.verdict, report.good) == ("socket-fallback", True)


def test_a_later_communicator_that_falls_back_stops_all(ranks: Ranks, tmp_path: Path) -> None:
    found = ranks(run, str(tmp_path), [EFA] * 4, "efa", {"later": FALLBACK})
    assert isinstance(found[0][0], TransportReport)
    assert len({str(one[1]) for one in found}) == 1
    text = str(found[0][1])
    assert text.startswith("transport.expect: found socket-fallback: communicator 0xabc70f, seen at a checkpoint")
    assert "via NET/Socket/0" in text


def test_a_later_communicator_on_efa_is_told(ranks: Ranks, tmp_path: Path) -> None:
    found = ranks(run, str(tmp_path), [EFA] * 4, "efa", {"later": EFA})
    assert found[0][1][1] == ["0xabc70f"]


def test_bandwidth_is_in_the_report(ranks: Ranks, tmp_path: Path) -> None:
    report = ranks(measured, str(tmp_path))[0]
    assert [(one.group, one.collective) for one in report.bandwidth] == [
        ("world", "all_reduce"),
        ("world", "all_gather"),
        ("world", "reduce_scatter"),
    ]


def measured(rank: int, folder: str) -> TransportReport:
    return check({"world": groups()["world"]}, "any", log=None, device=CPU, bandwidth=True)


def test_a_cpu_run_is_gloo_and_never_efa(ranks: Ranks) -> None:
    for expect, text in ranks(without_nccl)[0].items():
        if expect == "any":
            assert text == "gloo True"
        else:
            assert text.startswith("transport.expect: found gloo: gloo on CPU: not NCCL")
            assert f"allowed: {expect}; a CPU run proves nothing of it" in text


def without_nccl(rank: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for expect in ("any", "efa", "tcp"):
        try:
            report = check(groups(), expect, log=None, device=CPU)
            found[expect] = f"{report.verdict} {report.good}"
        except TrainingError as error:
            found[expect] = str(error)
    return found


def test_the_environment_asks_nccl_for_a_file_of_the_rank() -> None:
    config = TransportConfig(log_dir="/var/log/50%")
    assert debug_environment(config, 3, {}) == {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET",
        "NCCL_DEBUG_FILE": "/var/log/50%%/nccl-rank3-%h-%p.log",
    }


@pytest.mark.parametrize(
    ("current", "debug", "subsystems"),
    [
        ({"NCCL_DEBUG": "WARN", "NCCL_DEBUG_SUBSYS": "coll"}, "INFO", "COLL,INIT,ENV,NET"),
        ({"NCCL_DEBUG": "trace", "NCCL_DEBUG_SUBSYS": "ALL"}, "TRACE", "ALL"),
        ({"NCCL_DEBUG_SUBSYS": "^INIT,NET"}, "INFO", "NET,INIT,ENV"),
    ],
)
def test_what_is_asked_already_is_kept_where_it_says_more(current: dict[str, str], debug: str, subsystems: str) -> None:
    found = debug_environment(TransportConfig(), 0, current)
    assert (found["NCCL_DEBUG"], found["NCCL_DEBUG_SUBSYS"]) == (debug, subsystems)


def test_a_file_of_an_earlier_process_with_the_same_number_does_not_speak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / f"nccl-rank0-host-{os.getpid()}.log"
    old.write_text(info(Rank(0, 0, 0), 1, "Using network Libfabric"))
    other = tmp_path / "nccl-rank1-host-1.log"
    other.touch()
    for name in debug_environment(TransportConfig(), 0, {}):
        monkeypatch.setenv(name, "")
    log = prepare(TransportConfig(log_dir=str(tmp_path)), 0)
    assert not old.exists()
    assert other.exists()
    assert log.read().num_nccl_lines == 0


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrainingError, match=r"^transport.log_dir: .*/file/logs: Not a directory; allowed: "):
        prepare(TransportConfig(log_dir=f"{tmp_path}/file/logs"), 0)


def test_a_log_is_read_on_and_a_half_line_waits(tmp_path: Path) -> None:
    path, line = (
        tmp_path / "a.log",
        info(Rank(0, 0, 0), 1, "NET/OFI Selected provider is efa, fabric is efa (found 1 nics)"),
    )
    log = RankLog(tmp_path, "*.log")
    assert log.read().num_nccl_lines == 0
    path.write_text(line[:60])
    assert log.read().num_nccl_lines == 0
    path.write_text(f"{line}\n")
    process = next(iter(log.read().processes.values()))
    assert [(one.name, one.line.number) for one in process.providers] == [("efa", 1)]


def test_the_begin_of_a_try_is_an_event() -> None:
    assert checking("a") == {"event": "transport", "status": "checking", "run": "a"}


@pytest.mark.parametrize("path", ["logs", "~/logs", ""])
def test_a_log_directory_must_be_absolute(path: str) -> None:
    problems = TransportConfig(log_dir=path).problems()
    assert len(problems) == 1
    assert problems[0].startswith(f"transport.log_dir: found {path!r}; allowed: an absolute path; ")
    assert TransportConfig().problems() == []
