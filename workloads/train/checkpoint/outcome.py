"""What became of a save or a resume."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ..events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of one save. `status` tells saved (it counts), dropped (it could not be written) and skipped (another was under way)."""

    status: str
    step: int
    uri: str | None
    """The last complete checkpoint, this one if it counts."""
    reason: str | None = None
    """Why it was dropped or skipped; of a saved one, why older ones could not be removed."""
    num_files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    """From the call to the commit."""
    stall_seconds: float = 0.0
    """Of those, how long training stood still on this rank."""
    pinned: bool = False

    def event(self) -> Event:
        """Return the event of it."""
        return {"event": "checkpoint", **asdict(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """A checkpoint that was loaded."""

    step: int
    extra: Mapping[str, object]
    """What the trainer gave to `save`."""
    uri: str
    world_size: int
    """Ranks that wrote it."""
    rng: str
    """restored, or reseeded where the world has another size now."""
    refused: tuple[str, ...]
    """Newer ones that are incomplete or damaged, each with its reason."""
    seconds: float

    def event(self) -> Event:
        """Return the event of it."""
        return {"event": "resume", **{name: value for name, value in asdict(self).items() if name != "extra"}}
