"""This rank's part of the state: where it goes, the buffers that it is copied into, and the copy of one save."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from .layout import Layout, lay_out, planner_of
from .staging import Staged, Staging
from .state import State


@dataclass(frozen=True, slots=True)
class Copy:
    """The copy of one save."""

    layout: Layout
    staged: Staged
    let_go: Callable[[], None]
    """Ends what the copy does to the optimizer; called when the save has ended."""


class Shards:
    """Layout and buffers, made once and again only where the state has changed its form. All ranks call `hold` and `copy`."""

    def __init__(self, streams: int) -> None:
        self._streams = streams
        self._layout: Layout | None = None
        self._staging: Staging | None = None

    @property
    def bytes(self) -> int:
        """Return the size of the buffers."""
        return self._staging.bytes if self._staging is not None else 0

    @property
    def pinned(self) -> bool:
        """Tell whether a GPU copies without stopping the host."""
        return self._staging is not None and self._staging.pinned

    def hold(self, state: State) -> tuple[Layout, Staging]:
        """Have buffers for a state."""
        layout = lay_out(planner_of(state, coordinator=dist.get_rank() == 0), self._layout, streams=self._streams)
        if layout is not self._layout or self._staging is None:
            self.close()
            device = next(iter(state.model.values())).device
            self._layout, self._staging = layout, Staging(layout.items, device)
        return layout, self._staging

    def copy(self, state: State, optimizer: torch.optim.Optimizer) -> Copy:
        """Copy this rank's shards; on a GPU only begin to, and let the optimizer's next step wait for the end on the GPU."""
        layout, staging = self.hold(state)
        staged = staging.copy(planner_of(state, coordinator=dist.get_rank() == 0).resolve_data)
        if staged.copied is None:
            return Copy(layout, staged, _nothing)
        return Copy(layout, staged, optimizer.register_step_pre_hook(_Behind(staged.copied)).remove)

    def close(self) -> None:
        """Give the buffers back. No save may be under way."""
        if self._staging is not None:
            self._staging.close()
        self._staging = self._layout = None


class _Behind:
    """Let the GPU change weights only after they were copied; the host goes on."""

    def __init__(self, copied: torch.cuda.Event) -> None:
        self._copied = copied

    def __call__(self, *_: object) -> None:
        torch.cuda.current_stream().wait_event(self._copied)


def _nothing() -> None:
    return None
