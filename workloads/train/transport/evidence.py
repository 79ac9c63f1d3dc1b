"""What one rank's own file of NCCL's lines says, and what all ranks' files say together."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch.distributed as dist

from .classify import assemble, judge
from .config import Expect
from .members import Member, groups
from .parse import Parser
from .records import Communicator, Line, Process, Records, merge
from .report import CommunicatorReport, TransportReport

WORLD, REPLICATE = "world", "dp_replicate"
_ASKS = ("NCCL_NET", "NCCL_NET_PLUGIN")


class RankLog:
    """NCCL's file of this process: read on from where it was read last. NCCL makes it with its first line, and writes line by line."""

    def __init__(self, directory: Path, pattern: str) -> None:
        self._directory, self._pattern = directory, pattern
        self._parser: Parser | None = None
        self._path: Path | None = None
        self._offset, self._rest = 0, b""

    @property
    def name(self) -> str:
        """Return the file, or what is looked for while it is not there."""
        return str(self._path or self._directory / self._pattern)

    def read(self) -> Records:
        """Return what the file says up to now; empty records where there is none."""
        if self._path is None:
            self._path = next(iter(sorted(self._directory.glob(self._pattern))), None)
        if self._path is None:
            return Records()
        self._parser = self._parser or Parser(str(self._path))
        with self._path.open("rb") as file:
            file.seek(self._offset)
            new = file.read()
        self._offset += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        self._parser.feed(line.decode("utf-8", "replace") for line in lines)
        return self._parser.records


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Which communicator of its process a rank uses for a group; None where its file does not show one."""

    ranks: tuple[int, ...]
    index: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one rank gives to all."""

    rank: int
    node: str
    pid: int
    log: str
    records: Records
    claims: Mapping[str, Claim]

    @property
    def process(self) -> Process:
        """Return the rank's process; without a line of it, one that says nothing."""
        mine = [one for one in self.records.processes.values() if one.pid == self.pid]
        process = mine[0] if mine else Process(host=self.node, pid=self.pid)
        # Hosts of several nodes may have one name; the node tells them apart.
        process.ip = self.node
        return process


def evidence(log: RankLog, records: Records, claims: Mapping[str, Claim], node: str) -> Evidence:
    """Return this rank's part; what the environment asks for counts also where NCCL was not told to print it."""
    for process in records.processes.values():
        for key in _ASKS:
            if key in os.environ:
                process.environment.setdefault(
                    key, (os.environ[key], Line(f"{key}={os.environ[key]}", "environment", 0))
                )
    return Evidence(
        rank=dist.get_rank(),
        node=node or socket.gethostname(),
        pid=os.getpid(),
        log=log.name,
        records=records,
        claims=claims,
    )


def judge_all(parts: list[Evidence], expect: Expect) -> TransportReport:
    """Judge every group, and every communicator of NCCL that belongs to none of them. All ranks come to the same report."""
    processes = {part.rank: part.process for part in parts}
    claimed: dict[tuple[str, tuple[int, ...]], list[Member]] = {}
    taken: set[int] = set()
    for part in parts:
        for name, claim in part.claims.items():
            process = processes[part.rank]
            if claim.index is None:
                view = Communicator(rank=claim.ranks.index(part.rank), num_ranks=len(claim.ranks))
            else:
                view = process.communicators[claim.index]
                taken.add(id(view))
            claimed.setdefault((name, claim.ranks), []).append(Member(process, view))
    communicators: list[CommunicatorReport] = []
    proving: list[str] = []
    proof_group = REPLICATE if any(name == REPLICATE for name, _ in claimed) else WORLD
    for (name, ranks), members in claimed.items():
        report = judge(name if len(ranks) == len(parts) else f"{name} of ranks {', '.join(map(str, ranks))}", members)
        communicators.append(report)
        if name == proof_group:
            proving.append(report.name)
    everything = Records(processes={(one.host, one.pid, f"{rank} {one.ip}"): one for rank, one in processes.items()})
    for name, members in groups(everything).items():
        others = [member for member in members if id(member.view) not in taken]
        if others and len(others) == len(members):
            communicators.append(judge(name, others))
    # Processes of two nodes may have one host name and number: these are told apart already.
    whole = merge([replace(part.records, processes={}) for part in parts])
    whole.processes = everything.processes
    return assemble(communicators, whole, expect, proving)
