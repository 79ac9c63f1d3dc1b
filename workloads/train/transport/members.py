"""Which ranks belong to one communicator, and on which nodes they are."""

from collections.abc import Mapping
from dataclasses import dataclass

from .records import Communicator, Process, Records

LIBFABRIC = "Libfabric"
NAMELESS = "no init line"
"""The name of what a filtered log leaves: networks and channels of nobody knows which communicator."""


@dataclass(frozen=True, slots=True)
class Member:
    """A rank's process and its view of a communicator."""

    process: Process
    view: Communicator


def groups(records: Records) -> dict[str, list[Member]]:
    """Return the communicators by name, with all ranks that the logs show."""
    found: dict[str, list[Member]] = {}
    for process in records.processes.values():
        names: dict[int, str] = {}
        ordinals: dict[int | None, int] = {}
        for view in process.communicators:
            ordinals[view.num_ranks] = ordinals.get(view.num_ranks, 0) + 1
            name = _name(view, process, names, ordinals[view.num_ranks])
            names[id(view)] = name
            found.setdefault(name, []).append(Member(process, view))
        for view in process.loose:
            found.setdefault(NAMELESS, []).append(Member(process, view))
        if not process.communicators and not process.loose and (process.initialized or process.providers):
            found.setdefault(NAMELESS, []).append(Member(process, Communicator()))
    return found


def _name(view: Communicator, process: Process, names: Mapping[int, str], ordinal: int) -> str:
    """Return the same name on all ranks: NCCL's id, or the parent's with the child's count and colour (a split has no id)."""
    if view.comm_id is not None:
        return view.comm_id
    if view.child is not None:
        parents = [one for one in process.communicators if one.pointer == view.parent and id(one) in names]
        return f"{names[id(parents[-1])] if parents else '?'}/{view.child}"
    return f"{view.num_ranks} ranks #{ordinal}"


def crosses(members: list[Member]) -> bool | None:
    """Tell whether a communicator spans nodes; None where its lines do not say it."""
    nodes = [member.view.num_nodes for member in members if member.view.num_nodes is not None]
    if nodes:
        return max(nodes) > 1
    if any(kind.startswith("NET/") for member in members for kind in member.view.channels):
        return True
    return True if len({node(member) for member in members}) > 1 else None


def node(member: Member) -> str:
    """Return the name of a rank's node; where Ray or the trainer gave an address, it tells apart hosts of one name."""
    return f"{member.process.host} {member.process.ip}".rstrip()


def has_neighbour(member: Member, members: list[Member]) -> bool:
    """Tell whether another rank of its node can carry what this one sends: in a ring, not every rank has a way out."""
    if member.view.local_ranks is not None:
        return member.view.local_ranks > 1
    return any(one.process is not member.process and node(one) == node(member) for one in members)


def dark_nodes(members: list[Member]) -> str:
    """Return the nodes on which no rank sends over the network, "" for none."""
    nodes: dict[str, int] = {}
    for member in members:
        nodes[node(member)] = nodes.get(node(member), 0) + (f"NET/{LIBFABRIC}" in member.view.channels)
    dark = [node for node, carriers in nodes.items() if not carriers]
    said = max((member.view.num_nodes or 0 for member in members), default=0)
    if not dark and said > len(nodes) and sum(nodes.values()) < said:
        # Several of NCCL's nodes under one host name (NCCL_HOSTID): only their number is known.
        return f"{said - sum(nodes.values())} of {said} nodes"
    return ", ".join(sorted(dark))
