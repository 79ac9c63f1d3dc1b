"""The output of a process as the container log that `kubectl logs` reads."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from rehearsal.cluster.container_log import log_entry


class LogCopy:
    """Copies what is new in a log into a container log, whole lines. Call `advance` again and again."""

    def __init__(self, source: Path, target: Path) -> None:
        self._source, self._target = source, target
        self._read = 0

    def advance(self) -> None:
        """Copy the lines that were written since the last call."""
        with self._source.open("rb") as source:
            source.seek(self._read)
            lines, end, _ = source.read().rpartition(b"\n")
        if not end:
            return
        self._read += len(lines) + 1
        now = datetime.now(UTC)
        with self._target.open("ab") as target:
            target.writelines(log_entry(line + b"\n", "stdout", now) for line in lines.split(b"\n"))
