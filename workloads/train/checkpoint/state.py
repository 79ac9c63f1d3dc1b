"""What is saved of a model and its optimizer, under names that neither compilation nor wrapping nor the world size changes."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import torch
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_state_dict, set_optimizer_state_dict

MODEL, OPTIMIZER = "model", "optimizer"
_WRAPPERS = ("_orig_mod.", "_checkpoint_wrapped_module.")
"""What torch.compile and activation checkpointing put into names."""


@dataclass(frozen=True, slots=True)
class State:
    """The sharded state of a model and its optimizer: the very tensors that are trained, not copies."""

    model: dict[str, torch.Tensor]
    optimizer: dict[str, object]

    @property
    def tree(self) -> dict[str, object]:
        """Return what torch.distributed.checkpoint saves or fills."""
        return {MODEL: self.model, OPTIMIZER: self.optimizer}


def state_of(module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> State:
    """Return the state of both; a weight under two names (tied embedding and head) is there once, under the first.

    An optimizer without state gets one, for there must be something to fill: torch makes it by a step of learning rate 0, which also
    counts as a step. Use `blank` where nothing is filled in after all.
    """
    model, states = get_state_dict(module, optimizer)
    return State(_untied(module, model), cast("dict[str, object]", states))


def model_state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the model's part alone."""
    return _untied(module, get_model_state_dict(module))


def blank(optimizer: torch.optim.Optimizer) -> None:
    """Take from an optimizer what `state_of` gave it."""
    optimizer.state.clear()


def put_back(module: torch.nn.Module, optimizer: torch.optim.Optimizer, state: State) -> None:
    """Give the optimizer what was filled in and is no tensor. The tensors were filled where they are."""
    set_optimizer_state_dict(module, optimizer, state.optimizer)  # pyright: ignore[reportArgumentType]


def tied_names(module: torch.nn.Module) -> list[str]:
    """Return the names under which a parameter is met again, in the model's order."""
    first: dict[int, str] = {}
    again: list[str] = []
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if first.setdefault(id(parameter), name) != name:
            again.append(plain(name))
    return again


def plain(name: str) -> str:
    """Return a parameter's name without what wrappers put into it."""
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    return name


def shapes(state: State) -> dict[str, tuple[int, ...]]:
    """Return the whole shape of every tensor of the model, whatever its shards."""
    return {name: tuple(value.shape) for name, value in state.model.items()}


def fingerprints(state: State, optimizer: torch.optim.Optimizer) -> dict[str, str]:
    """Return what a checkpoint must have in common with the model and optimizer that it is loaded into."""
    described = "\n".join(f"{name} {list(shape)}" for name, shape in sorted(shapes(state).items()))
    return {
        "model": hashlib.sha256(described.encode()).hexdigest(),
        "dtype": " ".join(sorted({str(value.dtype).removeprefix("torch.") for value in state.model.values()})),
        "optimizer": type(optimizer).__name__,
    }


def difference(saved: Mapping[str, tuple[int, ...]], here: Mapping[str, tuple[int, ...]]) -> str:
    """Return the first tensor in which two models differ, in words."""
    for name in [*here, *saved]:
        if saved.get(name) != here.get(name):
            return f"{name} is {_shape(saved.get(name))} there and {_shape(here.get(name))} here"
    return "no tensor differs in name or shape"


def _untied(module: torch.nn.Module, model: Mapping[str, object]) -> dict[str, torch.Tensor]:
    ties = set(tied_names(module))
    return cast("dict[str, torch.Tensor]", {name: value for name, value in model.items() if name not in ties})


def _shape(shape: tuple[int, ...] | None) -> str:
    return "absent" if shape is None else str(list(shape))
