"""The log that the engine writes with --event-log: one JSON event a line.

Source of the format: sdk/go/common/apitype/events.go in pulumi/pulumi.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_events(event_log: Path) -> list[dict[str, Any]]:
    """Return the events in their order.

    A log that was never begun has none, and a last line that was cut off when the engine was killed is left out.
    """
    whole = event_log.read_text(encoding="utf-8").rpartition("\n")[0] if event_log.exists() else ""
    return [json.loads(line) for line in whole.splitlines()]
