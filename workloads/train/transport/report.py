"""The verdict on a run's network, for programs and for people."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

from .config import Expect

SCHEMA = "efa-ray-train/transport/1"
"""Changes with the meaning or the name of a key; a new key alone does not change it."""

Verdict = Literal["socket-fallback", "libfabric-tcp", "tcp", "unknown", "efa", "local", "gloo"]
"""
efa               libfabric's EFA provider, on every rank that talks to another node
libfabric-tcp     the plugin was loaded, and libfabric selected a provider that is not efa
tcp               NCCL's own sockets, as the environment asks
socket-fallback   NCCL's own sockets, and nobody asked for them
local             nothing crosses nodes
unknown           the logs do not prove it
gloo              not NCCL at all: a CPU run, which proves nothing about EFA
"""

WORST_FIRST: tuple[Verdict, ...] = ("socket-fallback", "libfabric-tcp", "tcp", "unknown", "efa", "gloo", "local")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """One rank of a communicator. `proof` is `file:line: words`."""

    rank: int | None
    where: str
    verdict: Verdict
    reason: str
    proof: str | None
    provider: str | None = None
    fabric: str | None = None
    num_nics: int | None = None
    nics: list[int] = field(default_factory=list[int])
    """NCCL's numbers of the network devices in use."""
    gpu_direct: bool = False
    channels: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicatorReport:
    """All ranks of one communicator. `unproven` are the ranks whose own words are missing."""

    name: str
    num_ranks: int | None
    num_nodes: int | None
    verdict: Verdict
    reason: str
    proof: str | None
    unproven: list[int]
    ranks: list[RankReport]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """A measured collective. `bus_bytes_per_second` is comparable with the link's rate; seconds are the median."""

    group: str
    collective: str
    num_ranks: int
    size_bytes: int
    seconds: float
    bus_bytes_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportReport:
    """What carried a run's traffic, and how that is known."""

    schema: str = SCHEMA
    expect: Expect
    verdict: Verdict
    good: bool
    reason: str
    proof: str | None
    communicators: list[CommunicatorReport]
    versions: dict[str, list[str]]
    interfaces: list[str]
    findings: list[str]
    unproven: list[str]
    folded: int = 0
    damaged: int = 0
    set_aside: list[str] = field(default_factory=list[str])
    bandwidth: list[Bandwidth] = field(default_factory=list[Bandwidth])

    def to_json(self) -> dict[str, object]:
        """Return it as JSON, with the schema's name first."""
        return asdict(self)


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict that all of them together deserve; unknown for none."""
    for one in WORST_FIRST:
        if one in verdicts:
            return one
    return "unknown"


def table(report: TransportReport) -> str:
    """Return a report as text: a line for each communicator, the lines that prove it, what is missing, and what to do."""
    rows = [("communicator", "ranks", "nodes", "verdict", "NICs", "why")]
    for one in report.communicators:
        nics = sorted({nic for rank in one.ranks for nic in rank.nics})
        rows.append(
            (
                one.name,
                f"{len({rank.where for rank in one.ranks})} of {one.num_ranks or '?'}",
                str(one.num_nodes or "?"),
                one.verdict,
                ",".join(map(str, nics)) or "-",
                one.reason,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[5]]) for row in rows
    ]
    lines += ["", *_details(report)]
    lines.append(
        f"verdict: {report.verdict} (expected: {report.expect}): {'good' if report.good else 'NOT good'}: {report.reason}"
    )
    return "\n".join(lines)


def _details(report: TransportReport) -> list[str]:
    parts: Mapping[str, Sequence[str]] = {
        "proof": [report.proof] if report.proof else [],
        "version": [f"{name} {', '.join(found)}" for name, found in sorted(report.versions.items())],
        "interface": report.interfaces,
        "finding": report.findings,
        "unproven": report.unproven,
        "set aside": report.set_aside,
        "damaged": [f"{report.damaged} lines into which another process wrote"] if report.damaged else [],
        "bandwidth": [
            f"{one.group} {one.collective} {one.size_bytes / 2**20:g} MiB: {one.bus_bytes_per_second / 1e9:.2f} GB/s on the bus"
            for one in report.bandwidth
        ],
    }
    return [f"{name}: {line}" for name, found in parts.items() for line in found]
