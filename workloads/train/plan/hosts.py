"""Where the ranks run: as many on every node, node after node, all on the same card. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UsageError

CPU = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What one rank says of its place."""

    node: str
    device_name: str
    """As torch names the GPU, or cpu."""
    memory_bytes: int
    """Of the GPU; of the whole node for a CPU."""


def layout(hosts: Sequence[Host]) -> tuple[int, int]:
    """Return (number of nodes, ranks of a node) of the hosts of all ranks, in the order of ranks.

    Raises:
        UsageError: a mesh of whole nodes cannot hold these ranks, or they are on different cards; everything that is wrong, one a line.
    """
    nodes = list(dict.fromkeys(host.node for host in hosts))
    per_node = Counter(host.node for host in hosts)
    problems: list[str] = []
    if len(set(per_node.values())) > 1:
        found = ", ".join(f"{count} on {node}" for node, count in per_node.items())
        problems.append(
            f"world size: found {len(hosts)} ranks, {found}; allowed: as many on every node; give every node the same number of ranks"
        )
    elif [host.node for host in hosts] != [node for node in nodes for _ in range(per_node[node])]:
        found = ", ".join(host.node for host in hosts)
        problems.append(
            f"ranks: found the nodes {found} in the order of ranks; allowed: all ranks of a node one after the other, as a row of the "
            "mesh is a node; start them node by node"
        )
    cards = Counter(host.device_name for host in hosts)
    if len(cards) > 1:
        found = ", ".join(f"{count} x {card}" for card, count in cards.items())
        problems.append(
            f"GPU: found {found}; allowed: one kind, as every rank waits for the slowest; take nodes of one instance type"
        )
    if problems:
        raise UsageError("\n".join(problems))
    return len(nodes), per_node[nodes[0]]
