"""Which ranks a mesh of whole nodes can hold."""

from collections.abc import Sequence

import pytest

from workloads.train.errors import UsageError
from workloads.train.plan.hosts import Host, layout


def hosts(nodes: str, cards: Sequence[str] = ()) -> list[Host]:
    """Return a rank for each letter, on the node of that name."""
    names = cards or ["NVIDIA L4"] * len(nodes)
    return [Host(node=node, device_name=card, memory_bytes=1) for node, card in zip(nodes, names, strict=True)]


@pytest.mark.parametrize(
    ("nodes", "expected"), [("a", (1, 1)), ("aaaa", (1, 4)), ("aabb", (2, 2)), ("bbaa", (2, 2)), ("abc", (3, 1))]
)
def test_whole_nodes(nodes: str, expected: tuple[int, int]) -> None:
    assert layout(hosts(nodes)) == expected


@pytest.mark.parametrize(
    ("nodes", "line"),
    [
        ("aaab", "world size: found 4 ranks, 3 on a, 1 on b; allowed: as many on every node; "),
        ("abab", "ranks: found the nodes a, b, a, b in the order of ranks; allowed: all ranks of a node one after the other"),
    ],
)  # fmt: skip
def test_what_a_mesh_cannot_hold(nodes: str, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        layout(hosts(nodes))
    assert str(caught.value).startswith(line)


def test_mixed_cards_are_refused_with_all_else_that_is_wrong() -> None:
    with pytest.raises(UsageError) as caught:
        layout(hosts("aab", ["NVIDIA L4", "NVIDIA L4", "NVIDIA L40S"]))
    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["world size", "GPU"]
    assert lines[1].startswith("GPU: found 2 x NVIDIA L4, 1 x NVIDIA L40S; allowed: one kind")
