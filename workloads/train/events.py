"""What a run says: JSON objects, one a line, with the key `event`: plan, resume, step, checkpoint or result."""

import json
from collections.abc import Mapping
from typing import Protocol, TypeAlias

Event: TypeAlias = Mapping[str, object]


class Reporter(Protocol):
    """Where rank 0 sends its events."""

    def emit(self, event: Event) -> None:
        """Send one event; it was taken when this returns."""
        ...

    def stop_asked(self) -> bool:
        """Tell whether somebody asked the run to end; known since the last event."""
        ...


def say(event: Event) -> None:
    """Print one event as one line, at once: pipes are buffered, and whoever reads the line acts on it."""
    print(json.dumps(event), flush=True)
