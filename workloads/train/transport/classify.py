"""From records to a verdict on every rank of every communicator, and on all of them.

EFA is claimed for a rank only by its own lines: `Selected provider is efa` of its process, and a communicator whose network is Libfabric
and whose traffic between nodes goes `via NET/Libfabric`. "Using network Libfabric" alone is no proof: it is said over TCP too
(https://github.com/aws/aws-ofi-nccl/issues/803), and so is any line with NET/OFI in it
(https://github.com/aws/deep-learning-containers/issues/2675).
"""

from collections.abc import Sequence

from .config import Expect
from .findings import findings
from .members import LIBFABRIC, Member, crosses, dark_nodes, groups, has_neighbour
from .records import Communicator, Line, Process, Records
from .report import CommunicatorReport, RankReport, TransportReport, Verdict, worst

SOCKET = "Socket"
EFA = "efa"


def classify(records: Records, expect: Expect) -> TransportReport:
    """Judge what logs say, all communicators alike."""
    folded = bool(records.folded)
    return assemble([judge(name, members, folded=folded) for name, members in groups(records).items()], records, expect)


def assemble(
    communicators: list[CommunicatorReport], records: Records, expect: Expect, proving: Sequence[str] = ()
) -> TransportReport:
    """Put a report together. `proving` names the communicators that must cross nodes; without it, those that do decide."""
    verdict, reason, proof = _overall(communicators, proving)
    if not records.num_nccl_lines and not communicators:
        reason = "no line of NCCL; set NCCL_DEBUG=INFO in the workers, and give their own files"
    return TransportReport(
        expect=expect,
        verdict=verdict,
        good=is_good(verdict, expect),
        reason=reason,
        proof=proof,
        communicators=communicators,
        versions=_versions(records),
        interfaces=sorted({name for process in records.processes.values() for name in process.interfaces}),
        findings=findings(records),
        unproven=_unproven(communicators, records),
        folded=records.num_folded,
        damaged=records.num_damaged,
        set_aside=records.set_aside,
    )


def is_good(verdict: Verdict, expect: Expect) -> bool:
    """Tell whether a verdict is what was expected; `any` takes whatever is proven."""
    return verdict != "unknown" if expect == "any" else verdict == expect


def judge(name: str, members: list[Member], *, folded: bool = False) -> CommunicatorReport:
    """Judge one communicator by all its ranks: the worst of them decides."""
    across = crosses(members)
    ranks = [_rank(member, across, members) for member in members]
    verdict = worst([one.verdict for one in ranks])
    # Of those that deserve it, one with a channel of its own says most.
    deciding = max((one for one in ranks if one.verdict == verdict), key=lambda one: len(one.nics) > 0)
    reason, proof = f"{_who(deciding)}: {deciding.reason}", deciding.proof
    num_ranks = next((member.view.num_ranks for member in members if member.view.num_ranks), None)
    missing = sorted(set(range(num_ranks or 0)) - {one.rank for one in ranks})
    unproven = sorted({*missing, *(one.rank for one in ranks if one.verdict == "unknown" and one.rank is not None)})
    if verdict == EFA:
        dark = dark_nodes(members)
        if dark:
            verdict, reason, proof = (
                "unknown",
                f"no channel via NET/{LIBFABRIC} on {dark}: cut short, or nothing was sent yet",
                None,
            )
        elif missing:
            verdict, proof = "unknown", None
            reason = f"{len(missing)} of {num_ranks} ranks have no line here ({_short(missing)}); give the files of all ranks"
        elif num_ranks is None and folded:
            verdict, proof = "unknown", None
            reason = "Ray folded lines of other processes away; give the workers' own files, or set RAY_DEDUP_LOGS=0 for the driver"
    return CommunicatorReport(
        name=name,
        num_ranks=num_ranks,
        num_nodes=next((member.view.num_nodes for member in members if member.view.num_nodes), None),
        verdict=verdict,
        reason=reason,
        proof=proof,
        unproven=unproven,
        ranks=sorted(ranks, key=lambda one: (one.rank is None, one.rank or 0, one.where)),
    )


def _rank(member: Member, across: bool | None, members: list[Member]) -> RankReport:
    process, view = member.process, member.view
    verdict, reason, line = _verdict(member, across, members)
    provider = process.providers[0] if process.providers else None
    uses = {kind: use for kind, use in view.channels.items() if kind.startswith("NET/")}
    return RankReport(
        rank=view.rank,
        where=process.where,
        verdict=verdict,
        reason=reason,
        proof=str(line) if line else None,
        provider=provider.name if provider else None,
        fabric=provider.fabric if provider else None,
        num_nics=provider.num_nics if provider else None,
        nics=sorted({device for use in uses.values() for device in use.devices}),
        gpu_direct=any(use.gpu_direct for use in uses.values()),
        channels={kind: use.count for kind, use in view.channels.items()},
    )


def _verdict(member: Member, across: bool | None, members: list[Member]) -> tuple[Verdict, str, Line | None]:
    process, view = member.process, member.view
    sent = {kind.removeprefix("NET/"): use.first for kind, use in view.channels.items() if kind.startswith("NET/")}
    local = next((use.first for kind, use in view.channels.items() if not kind.startswith("NET/")), None)
    if SOCKET in sent:
        return _sockets(process, sent[SOCKET])
    strange = next((name for name in sent if name != LIBFABRIC), None)
    if strange is not None:
        return "unknown", f"network {strange}, of which nothing is known here", sent[strange]
    if across is False or view.num_ranks == 1:
        return "local", "all its ranks are on one node", local or view.started
    if across is None and local is not None:
        return "local", "only channels inside the node", local
    network = view.network or process.initialized
    name = network.name if network else LIBFABRIC if sent else None
    if network is not None and name == SOCKET:
        return _sockets(process, network.line)
    if name is None:
        return (
            "unknown",
            "no line says which network",
            view.started or next((one.line for one in process.providers), None),
        )
    if name != LIBFABRIC:
        return "unknown", f"network {name}, of which nothing is known here", network.line if network else None
    if not process.providers:
        return "unknown", "the plugin does not say which provider it selected", network.line if network else sent[name]
    other = next((one for one in process.providers if one.name != EFA), None)
    if other is not None:
        return "libfabric-tcp", f"libfabric's provider is {other.name}", other.line
    if sent or (local is not None and has_neighbour(member, members)):
        return EFA, _efa(process, view), process.providers[0].line
    return "unknown", f"provider efa, and no channel via NET/{LIBFABRIC}", process.providers[0].line


def _efa(process: Process, view: Communicator) -> str:
    provider = process.providers[0]
    use = view.channels.get(f"NET/{LIBFABRIC}")
    fabric = f", fabric {provider.fabric}" if provider.fabric else ""
    nics = f", {provider.num_nics} NIC{'s' if provider.num_nics > 1 else ''}" if provider.num_nics else ""
    if use is None:
        return f"provider efa{fabric}{nics}; a neighbour on its node carries its traffic"
    return (
        f"provider efa{fabric}{nics}; {use.count} channels via NET/{LIBFABRIC}{', GPUDirect' if use.gpu_direct else ''}"
    )


def _sockets(process: Process, line: Line) -> tuple[Verdict, str, Line]:
    for key, wanted in (("NCCL_NET", "socket"), ("NCCL_NET_PLUGIN", "none")):
        value = process.environment.get(key)
        if value is not None and value[0].lower() == wanted:
            return "tcp", f"NCCL's sockets, as {key}={value[0]} asks", line
    return "socket-fallback", "NCCL fell back to its sockets", line


def _overall(communicators: list[CommunicatorReport], proving: Sequence[str]) -> tuple[Verdict, str, str | None]:
    if not communicators:
        return "unknown", "no line of NCCL tells a network or a communicator", None
    across = [one for one in communicators if one.verdict != "local"]
    stays = next((one for one in communicators if one.name in proving and one.verdict == "local"), None)
    if stays is not None and worst([one.verdict for one in across]) in (EFA, "local", "unknown"):
        return "local", f"communicator {stays.name} must cross nodes, and {stays.reason}", stays.proof
    if not across:
        return (
            "local",
            "nothing crosses nodes, so nothing is proven about the network between them",
            communicators[0].proof,
        )
    verdict = worst([one.verdict for one in across])
    deciding = next(one for one in across if one.verdict == verdict)
    return verdict, f"communicator {deciding.name}: {deciding.reason}", deciding.proof


def _unproven(communicators: list[CommunicatorReport], records: Records) -> list[str]:
    found = [
        f"communicator {one.name}: ranks {_short(one.unproven)} of {one.num_ranks}"
        for one in communicators
        if one.unproven and one.verdict != "local"
    ]
    if records.num_folded:
        found.append(f"{records.num_folded} lines of other ranks are folded by Ray, first {records.folded[0]}")
    return found


def _versions(records: Records) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for versions in [records.versions, *(process.versions for process in records.processes.values())]:
        for name, version in versions.items():
            found.setdefault(name, set()).add(version)
    return {name: sorted(versions) for name, versions in found.items()}


def _who(rank: RankReport) -> str:
    return f"rank {rank.rank} ({rank.where})" if rank.rank is not None else rank.where


def _short(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:8]))
    return f"{shown}, ... {numbers[-1]}" if len(numbers) > 8 else shown
