"""Logs as NCCL and aws-ofi-nccl write them, line by line in the true forms, for any number of nodes and ranks.

The forms are those of NCCL 2.29 (src/init.cc, src/transport/*.cc, src/plugin/net.cc) and aws-ofi-nccl 1.20 (src/nccl_ofi_net.cpp).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

EFA = "efa"
TCP_PROVIDER = "tcp"
FALLBACK = "fallback"
ASKED = "asked"


@dataclass(frozen=True)
class Rank:
    """Where a rank runs and what carries its traffic."""

    rank: int
    node: int
    local: int
    network: str = EFA

    @property
    def host(self) -> str:
        return f"worker-{self.node}"

    @property
    def pid(self) -> int:
        return 900 + self.rank


def cluster(nodes: int, gpus: int, network: Callable[[int], str] | str = EFA) -> list[Rank]:
    return [
        Rank(rank, rank // gpus, rank % gpus, network if isinstance(network, str) else network(rank))
        for rank in range(nodes * gpus)
    ]


def info(rank: Rank, thread: int, message: str) -> str:
    return f"{rank.host}:{rank.pid}:{thread} [{rank.local}] NCCL INFO {message}"


def warn(rank: Rank, thread: int, function: str, message: str) -> str:
    return f"[2026-11-30 12:00:00] {rank.host}:{rank.pid}:{thread} [{rank.local}] {function} NCCL WARN {message}"


def plugin(rank: Rank, *, nics: int = 1) -> list[str]:
    """The lines of a process, before its first communicator."""
    main = rank.pid
    lines = ["NCCL version 2.29.7+cuda13.0"] if rank.rank == 0 else []
    lines += [
        info(rank, main, f"Bootstrap: Using eth0:10.0.{rank.node}.5<0>"),
        info(rank, main, "cudaDriverVersion 13000"),
    ]
    if rank.network == ASKED:
        return [*lines, info(rank, main, "NCCL_NET_PLUGIN set by environment to none"), *_socket(rank)]
    lines += [
        info(rank, main, "NCCL_NET_PLUGIN set by environment to ofi"),
        info(rank, main, "NET/Plugin: Loaded net plugin Libfabric (v11)"),
        info(rank, main, "Successfully loaded external network plugin /opt/amazon/ofi-nccl/lib/libnccl-net.so"),
        info(rank, main, "NET/OFI Initializing aws-ofi-nccl 1.20.0"),
        info(rank, main, "NET/OFI Using Libfabric version 2.4"),
    ]
    if rank.network == FALLBACK:
        create = "int nccl_net_ofi_create_plugin(nccl_net_ofi_plugin_t**)"
        return [
            *lines,
            info(rank, main, "NET/OFI Setting provider_filter to efa"),
            info(rank, main, "NET/OFI No eligible providers were found"),
            "",
            warn(
                rank, main, f"{create}:334", "NET/OFI Unable to find a protocol that worked.  Failing initialization."
            ),
            "",
            warn(rank, main, f"{create}:418", "NET/OFI aws-ofi-nccl initialization failed"),
            *_socket(rank),
        ]
    provider = (
        f"NET/OFI Selected provider is efa, fabric is efa (found {nics} nics)"
        if rank.network == EFA
        else "NET/OFI Selected provider is tcp, fabric is 10.0.0.0/16 (found 1 nics)"
    )
    return [
        *lines,
        info(rank, main, "NET/OFI Plugin selected platform: AWS"),
        info(rank, main, "NET/OFI Using transport protocol SENDRECV (platform set)"),
        info(rank, main, provider),
        info(rank, main, "NET/OFI Need to force simple protocol: GDR not supported"),
        info(rank, main, "Initialized NET plugin Libfabric"),
    ]


def _socket(rank: Rank) -> list[str]:
    return [
        info(rank, rank.pid, "NET/IB : No device found."),
        info(rank, rank.pid, "Failed to initialize NET plugin IB"),
        info(rank, rank.pid, f"NET/Socket : Using [0]eth0:10.0.{rank.node}.5<0>"),
        info(rank, rank.pid, "Initialized NET plugin Socket"),
    ]


def net_name(rank: Rank) -> str:
    return "Socket" if rank.network in (FALLBACK, ASKED) else "Libfabric"


def communicator(me: Rank, members: list[Rank], *, number: int, connect: bool = True, split: bool = False) -> list[str]:
    """The lines of one rank for one communicator: made by the main thread, connected by another one at the first collective."""
    mine = members.index(me)
    pointer = f"0x55d{number:x}{me.rank:02x}0"
    parent = f"0x55d0{me.rank:02x}0"
    identity = (
        f"parent {parent} childCount {number} color {members[0].rank + 7} key {mine}"
        if split
        else f"commId 0xabc{number:x}{members[0].rank:x}f"
    )
    head = f"comm {pointer} rank {mine} nranks {len(members)} cudaDev {me.local} nvmlDev {me.local} busId {me.local + 3}1000"
    local = [one for one in members if one.node == me.node]
    num_nodes = len({one.node for one in members})
    function = "ncclCommSplit" if split else "ncclCommInitRankConfig"
    lines = [
        info(me, me.pid, f"Assigned NET plugin {net_name(me)} to comm"),
        info(me, me.pid, "GIN/Plugin: Failed to initialize any GIN plugin"),
        info(me, me.pid, f"Using network {net_name(me)}"),
        info(
            me,
            me.pid,
            f"{'' if split else f'[Rank {mine}] '}{function} {head} {identity}{'- ' if split else ' - '}Init START",
        ),
        info(
            me,
            me.pid,
            f"comm {pointer} rank {mine} nRanks {len(members)} nNodes {num_nodes} localRanks {len(local)} localRank {local.index(me)} MNNVL 0",
        ),
        info(me, me.pid, "Channel 00/02 : 0 1 2 3"),
        info(me, me.pid, "P2P Chunksize set to 131072"),
        info(me, me.pid, f"{function} {head} {identity} - Init COMPLETE"),
    ]
    return lines + (channels(me, members, number=number) if connect else [])


def channels(me: Rank, members: list[Rank], *, number: int) -> list[str]:
    """The ring of a communicator, as one rank tells it: what it receives over the network, what it sends otherwise."""
    mine, thread = members.index(me), me.pid + 100 + number
    before, after = members[mine - 1], members[(mine + 1) % len(members)]
    lines: list[str] = []
    for channel in range(2):
        if before.node != me.node:
            lines.append(
                info(
                    me,
                    thread,
                    f"Channel {channel:02d}/0 : {members.index(before)}[{before.local}] -> {mine}[{me.local}] [receive] via NET/{net_name(me)}/0",
                )
            )
        if after.node != me.node:
            lines.append(
                info(
                    me,
                    thread,
                    f"Channel {channel:02d}/0 : {mine}[{me.local}] -> {members.index(after)}[{after.local}] [send] via NET/{net_name(me)}/0",
                )
            )
        elif after is not me:
            lines.append(
                info(
                    me,
                    thread,
                    f"Channel {channel:02d} : {mine}[{me.local}] -> {members.index(after)}[{after.local}] via SHM/direct/direct",
                )
            )
    return [*lines, info(me, thread, "Connected all rings, use ring PXN 0 GDR 0")]


def hsdp(ranks: list[Rank]) -> dict[int, list[str]]:
    """Each rank's own log of an HSDP run: world, then dp_replicate across nodes, then dp_shard inside."""
    return {
        me.rank: [
            *plugin(me),
            *communicator(me, ranks, number=0),
            *communicator(me, [one for one in ranks if one.local == me.local], number=1),
            *communicator(me, [one for one in ranks if one.node == me.node], number=2),
        ]
        for me in ranks
    }


def by_ray(rank: Rank, line: str, *, colour: bool = True) -> str:
    """A line as Ray's driver prints it."""
    prefix = f"(RayTrainWorker pid={rank.pid}, ip=10.0.{rank.node}.5)"
    return f"\x1b[36m{prefix}\x1b[0m {line}" if colour else f"{prefix} {line}"


def write(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path
