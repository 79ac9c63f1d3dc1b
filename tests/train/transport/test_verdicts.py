"""Verdicts on saved logs: every form and trap that was reported, each in a folder of its own, and mixtures."""

import random
from pathlib import Path

import pytest

from tests.train.transport.nccl_logs import (
    ASKED,
    EFA,
    FALLBACK,
    Rank,
    by_ray,
    channels,
    cluster,
    communicator,
    hsdp,
    info,
    plugin,
)
from workloads.train.transport.classify import classify
from workloads.train.transport.config import Expect
from workloads.train.transport.parse import Parser
from workloads.train.transport.records import Records, merge
from workloads.train.transport.report import TransportReport
from workloads.train.transport.sources import read_all

LOGS = Path(__file__).parent / "logs"
EXPECTED = {
    "efa-direct-gpudirect": "efa",
    "efa-hsdp": "efa",
    "efa-old-plugin": "efa",
    "efa-sendrecv": "efa",
    "fallback-no-device": "socket-fallback",
    "fallback-no-plugin": "socket-fallback",
    "fallback-no-plugin-old": "socket-fallback",
    "fallback-only-efa-supported": "socket-fallback",
    "fallback-pod-identity": "socket-fallback",
    "late-split-falls-back": "socket-fallback",
    "libfabric-tcp": "libfabric-tcp",
    "mixed-nodes": "socket-fallback",
    "no-nccl-lines": "unknown",
    "one-node": "local",
    "ray-driver": "efa",
    "ray-folded": "unknown",
    "rdma-read-abort": "unknown",
    "security-group": "unknown",
    "tcp-asked": "tcp",
    "two-runs": "socket-fallback",
    "two-tries": "efa",
}


def of(*logs: list[str], expect: Expect = "efa") -> TransportReport:
    """Judge logs, each a list of lines."""
    parts: list[Records] = []
    for number, lines in enumerate(logs):
        parser = Parser(f"log{number}")
        parser.feed(lines)
        parts.append(parser.finish())
    return classify(merge(parts), expect)


def case(name: str) -> TransportReport:
    return classify(read_all([str(path) for path in sorted((LOGS / name).glob("*.log"))]), "efa")


@pytest.mark.parametrize("name", sorted(path.name for path in LOGS.iterdir()))
def test_a_reported_log_gets_its_verdict(name: str) -> None:
    report = case(name)
    assert report.verdict == EXPECTED[name]
    assert report.good == (report.verdict == EFA)
    assert "https://github.com/" in (LOGS / name / "README.md").read_text()
    if report.verdict not in ("unknown",):
        assert report.proof is not None
        file, number, text = report.proof.split(":", 2)
        assert text.strip() in Path(file).read_text().splitlines()[int(number) - 1]


def test_versions_and_nics_are_read() -> None:
    report = case("efa-direct-gpudirect")
    assert report.versions == {"aws-ofi-nccl": ["1.16.2-aws"], "libfabric": ["2.4"], "nccl": ["2.27.3+cuda12.9"]}
    rank = report.communicators[0].ranks[0]
    assert (rank.provider, rank.fabric, rank.num_nics, rank.nics, rank.gpu_direct) == (
        "efa",
        "efa-direct",
        32,
        [0, 3],
        True,
    )
    assert case("efa-sendrecv").communicators[0].ranks[0].gpu_direct is False


def test_the_failing_node_is_named_with_what_it_lacks() -> None:
    report = case("mixed-nodes")
    assert "worker-1" in report.reason
    assert "via NET/Socket/0" in str(report.proof)
    assert "no EFA device" in report.findings[0]
    assert "4 processes" in report.findings[0]
    verdicts = {rank.where: rank.verdict for rank in report.communicators[0].ranks}
    assert [verdicts[f"pid {900 + rank} on worker-{rank // 4}"] for rank in range(8)] == ["efa"] * 4 + [
        "socket-fallback"
    ] * 4


def test_pod_identity_makes_two_findings() -> None:
    assert [finding.split(";")[0] for finding in case("fallback-pod-identity").findings] == [
        "the plugin found no EFA device in this container",
        "NCCL took the interface of EKS Pod Identity",
    ]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("security-group", "security group"),
        ("rdma-read-abort", "FI_EFA_USE_DEVICE_RDMA"),
        ("fallback-no-plugin", "no network plugin"),
    ],
)
def test_a_known_warning_is_explained(name: str, word: str) -> None:
    assert any(word in finding for finding in case(name).findings)


def test_seven_ranks_on_efa_and_one_on_sockets_is_not_efa() -> None:
    report = of(*hsdp(cluster(2, 4, lambda rank: FALLBACK if rank == 6 else EFA)).values())
    assert report.verdict == "socket-fallback"
    replicas = [one for one in report.communicators if one.num_ranks == 2]
    assert sorted(one.verdict for one in replicas) == ["efa", "efa", "efa", "socket-fallback"]
    assert "pid 906 on worker-1" in next(one.reason for one in replicas if one.verdict == "socket-fallback")


def test_a_rank_without_its_file_is_unproven() -> None:
    logs = hsdp(cluster(2, 4))
    del logs[5]
    report = of(*logs.values())
    assert report.verdict == "unknown"
    assert "1 of 8 ranks have no line here (5)" in report.reason
    assert any("ranks 5 of 8" in line for line in report.unproven)


def test_folding_hides_ranks_and_counts_neither_as_one_nor_as_many() -> None:
    report = case("ray-folded")
    assert report.folded == 6 + 6 + 30
    assert any("folded by Ray" in line for line in report.unproven)
    assert "workers' own files" in report.reason


def test_folding_does_no_harm_where_every_rank_has_its_own_file() -> None:
    ranks = cluster(2, 1)
    driver = [
        f"{by_ray(me, line)} [repeated 2x across cluster]"
        for me in ranks
        for line in hsdp(ranks)[me.rank]
        if "Selected" in line
    ]
    report = of(*hsdp(ranks).values(), driver)
    assert (report.verdict, report.folded) == ("efa", 2)
    assert len(report.communicators[0].ranks) == 2


def test_the_same_process_in_two_logs_is_one() -> None:
    ranks = cluster(2, 4)
    whole = [line for lines in hsdp(ranks).values() for line in lines]
    driver = [by_ray(me, line) for me in ranks for line in hsdp(ranks)[me.rank] if line]
    assert [len(one.ranks) for one in of(whole, driver).communicators] == [
        len(one.ranks) for one in of(whole).communicators
    ]


def test_hosts_of_one_name_are_told_apart_by_ray() -> None:
    def same_host(me: Rank) -> list[str]:
        return [
            by_ray(me, line.replace("worker-1", "worker-0").replace(":901:", ":900:"))
            for line in hsdp(cluster(2, 1))[me.rank]
            if line
        ]

    ranks = cluster(2, 1)
    report = of([line.replace("pid=901", "pid=900") for me in ranks for line in same_host(me)])
    assert report.verdict == "efa"
    assert len(report.communicators[0].ranks) == 2


def test_middle_ranks_of_a_ring_need_no_channel_of_their_own() -> None:
    ranks = cluster(2, 4)
    report = of(*[[*plugin(me), *communicator(me, ranks, number=0)] for me in ranks])
    assert report.verdict == "efa"
    assert [rank.verdict for rank in report.communicators[0].ranks] == ["efa"] * 8
    assert [bool(rank.nics) for rank in report.communicators[0].ranks] == [True, False, False, True] * 2


def test_shared_memory_alone_between_nodes_is_no_proof() -> None:
    ranks = cluster(2, 2)
    logs = [
        [
            line.replace("via NET/Libfabric/0", "via SHM/direct/direct")
            for line in [*plugin(me), *communicator(me, ranks, number=0)]
        ]
        for me in ranks
    ]
    report = of(*logs)
    assert report.verdict == "unknown"
    assert "worker-0, worker-1" in report.reason


def test_a_split_has_one_name_on_all_ranks_and_another_under_another_parent() -> None:
    ranks = cluster(2, 1)
    logs = [
        [*plugin(me), *communicator(me, ranks, number=0), *communicator(me, ranks, number=3, split=True)]
        for me in ranks
    ]
    report = of(*logs)
    assert report.verdict == "efa"
    assert [(one.name, len(one.ranks)) for one in report.communicators] == [("0xabc00f", 2), ("0xabc00f/3/7", 2)]
    others = [[line.replace("0xabc00f", "0xdef00f").replace(":90", ":70") for line in lines] for lines in logs]
    assert [one.name for one in of(*logs, *others).communicators][2:] == ["0xdef00f", "0xdef00f/3/7"]


def test_a_rank_that_shows_no_channel_is_not_efa_whoever_its_neighbours_are() -> None:
    logs = hsdp(cluster(2, 2))
    logs[3] = [line for line in logs[3] if " via " not in line]
    report = of(*logs.values())
    assert report.verdict == "unknown"
    world = report.communicators[0]
    assert [rank.verdict for rank in world.ranks] == ["efa", "efa", "efa", "unknown"]
    assert world.unproven == [3]
    assert "no channel via NET/Libfabric" in world.reason


def test_using_network_libfabric_alone_is_no_proof() -> None:
    me = Rank(0, 0, 0)
    lines = [
        line for line in [*plugin(me), *communicator(me, cluster(2, 1), number=0)] if "Selected provider" not in line
    ]
    assert of(lines).communicators[0].ranks[0].verdict == "unknown"


def test_a_provider_alone_is_no_proof() -> None:
    assert of(plugin(Rank(0, 0, 0))).verdict == "unknown"


def test_ethernet_bootstrap_says_nothing() -> None:
    assert of([info(Rank(0, 0, 0), 1, "Bootstrap: Using eth0:10.0.0.5<0>")]).verdict == "unknown"


def test_a_network_of_another_kind_is_unknown_not_efa() -> None:
    ranks = cluster(2, 1)
    report = of(*[[line.replace("Libfabric", "IBext_v8") for line in lines] for lines in hsdp(ranks).values()])
    assert report.verdict == "unknown"
    assert "IBext_v8" in report.reason


def test_lazily_made_channels_go_to_the_communicator_that_they_fit() -> None:
    # All communicators are made first; the collectives come later, in another order.
    ranks = cluster(2, 2)
    logs: list[list[str]] = []
    for me in ranks:
        replicas = [one for one in ranks if one.local == me.local]
        shards = [one for one in ranks if one.node == me.node]
        made = [
            communicator(me, members, number=number, connect=False)
            for number, members in enumerate((ranks, replicas, shards))
        ]
        logs.append(
            [
                *plugin(me),
                *(line for lines in made for line in lines),
                *channels(me, shards, number=2),
                *channels(me, replicas, number=1),
                *channels(me, ranks, number=0),
            ]
        )
    report = of(*logs)
    assert report.verdict == "efa"
    assert sorted(one.verdict for one in report.communicators) == ["efa", "efa", "efa", "local", "local"]


def test_the_tcp_arm_is_checked_as_strictly() -> None:
    assert of(*hsdp(cluster(2, 2, ASKED)).values(), expect="tcp").good
    assert not of(*hsdp(cluster(2, 2, FALLBACK)).values(), expect="tcp").good
    assert not of(*hsdp(cluster(2, 2, "tcp")).values(), expect="tcp").good
    assert not of(*hsdp(cluster(2, 2)).values(), expect="tcp").good
    half = of(*hsdp(cluster(2, 2, lambda rank: ASKED if rank < 2 else EFA)).values(), expect="tcp")
    assert half.communicators[0].verdict == "tcp"


def _shuffled(logs: list[list[str]], chance: random.Random) -> list[str]:
    """Interleave logs: each keeps its order, as NCCL writes line by line."""
    left = [list(lines) for lines in logs]
    order = [number for number, lines in enumerate(left) for _ in lines]
    chance.shuffle(order)
    return [left[number].pop(0) for number in order]


MIXTURES: list[list[str]] = [
    [EFA] * 8,
    [*[EFA] * 5, FALLBACK, EFA, EFA],
    [*[EFA] * 4, *[FALLBACK] * 4],
    ["tcp", *[EFA] * 7],
    [ASKED] * 8,
]


@pytest.mark.parametrize("mixture", MIXTURES)
def test_interleaving_changes_nothing(mixture: list[str]) -> None:
    ranks = cluster(2, 4, lambda rank: mixture[rank])
    logs = list(hsdp(ranks).values())
    apart = of(*logs)
    for seed in range(15):
        chance = random.Random(seed)  # noqa: S311
        together = of(_shuffled(logs, chance))
        assert together.verdict == apart.verdict
        verdicts = {
            one.name: [(rank.rank, rank.where, rank.verdict) for rank in one.ranks] for one in apart.communicators
        }
        assert {
            one.name: [(rank.rank, rank.where, rank.verdict) for rank in one.ranks] for one in together.communicators
        } == verdicts


@pytest.mark.parametrize("seed", range(60))
def test_a_log_cut_short_never_gives_efa_to_a_rank_without_its_own_lines(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    ranks = cluster(2, 4)
    cut = {
        rank: lines[: chance.randrange(len(lines) + 1)] if chance.random() < 0.5 else lines
        for rank, lines in hsdp(ranks).items()
    }
    cut = {rank: [line for line in lines if chance.random() < 0.97] for rank, lines in cut.items()}
    for report in (of(*cut.values()), of(_shuffled(list(cut.values()), chance))):
        own = {
            ranks[rank].pid: any("Selected provider is efa" in line for line in lines)
            and any("Libfabric" in line for line in lines)
            for rank, lines in cut.items()
        }
        for one in report.communicators:
            for rank in one.ranks:
                assert rank.verdict != "efa" or own[int(rank.where.split()[1])]
            if one.verdict == "efa" and one.num_ranks is not None:
                assert len({rank.rank for rank in one.ranks}) == one.num_ranks
                assert not one.unproven


@pytest.mark.parametrize("seed", range(10))
def test_bytes_of_two_processes_mixed_up_never_make_efa_of_sockets(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    logs = list(hsdp(cluster(2, 2, lambda rank: FALLBACK if rank == 3 else EFA)).values())
    lines = _shuffled(logs, chance)
    glued: list[str] = []
    while lines:
        line = lines.pop(0)
        if lines and chance.random() < 0.1:
            at = chance.randrange(len(line) + 1)
            line = line[:at] + lines.pop(0) + line[at:]
        glued.append(line)
    report = of(glued)
    assert report.verdict != "efa"
    for one in report.communicators:
        assert all(rank.verdict != "efa" for rank in one.ranks if rank.where.startswith("pid 903"))
