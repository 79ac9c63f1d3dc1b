"""Names and fingerprints: of the model alone, not of what is wrapped around it."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

from tests.train.checkpoint.checkpoint_support import Tied
from workloads.train.checkpoint.state import difference, fingerprints, shapes, state_of, tied_names


def wrapped() -> torch.nn.Module:
    """Return a model whose blocks are recomputed and compiled, as the trainer may do."""
    module = Tied()
    for number, block in enumerate(module.blocks):
        module.blocks[number] = torch.compile(checkpoint_wrapper(block))  # pyright: ignore[reportArgumentType, reportCallIssue]
    return module


def test_wrappers_change_no_name_and_no_fingerprint() -> None:
    found = []
    for module in (Tied(), wrapped()):
        optimizer = torch.optim.AdamW(module.parameters())
        state = state_of(module, optimizer)
        found.append((shapes(state), fingerprints(state, optimizer)))
    assert found[0] == found[1]


def test_a_tied_weight_has_its_first_name() -> None:
    module = Tied()
    assert tied_names(module) == ["head.weight"]
    names = state_of(module, torch.optim.SGD(module.parameters())).model
    assert "embed.weight" in names
    assert "head.weight" not in names


def test_type_and_shape_are_part_of_a_fingerprint() -> None:
    prints = []
    for module in (Tied(), Tied(words=32), Tied().bfloat16()):
        optimizer = torch.optim.AdamW(module.parameters())
        prints.append(fingerprints(state_of(module, optimizer), optimizer))
    assert prints[0]["model"] != prints[1]["model"]
    assert prints[0]["model"] == prints[2]["model"]
    assert [one["dtype"] for one in prints] == ["float32", "float32", "bfloat16"]


def test_a_difference_is_named() -> None:
    assert difference({"a": (1,), "b": (2, 3)}, {"a": (1,), "b": (2, 4)}) == "b is [2, 3] there and [2, 4] here"
    assert difference({"a": (1,), "b": (2,)}, {"a": (1,)}) == "b is [2] there and absent here"
