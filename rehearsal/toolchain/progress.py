"""Show on stderr what is being got, how far it is and how long it takes; say nothing when nothing is to be done."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

_PLAIN_INTERVAL_S = 30.0


class Step(Protocol):
    """One step of the work."""

    def expect(self, packages: int) -> None:
        """Say of how many more packages the step consists at most."""
        ...

    def advance(self) -> None:
        """Count one package as compiled."""
        ...

    def note(self, text: str) -> None:
        """Add a remark, such as what the step waits for."""
        ...

    def done(self) -> None:
        """Mark the step as finished."""
        ...


class Progress:
    """A display of `total` steps: a live bar on a terminal, a line now and then elsewhere. Use as a context manager."""

    def __init__(self, total: int, *, stream: TextIO | None = None) -> None:
        self._total = total
        self._begun = 0
        self._stream = stream or sys.stderr
        self._rich: RichProgress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._rich is not None:
            self._rich.stop()

    def step(self, what: str) -> Step:
        """Begin the next step; `what` is told as it is."""
        self._begun += 1
        label = f"[{self._begun}/{self._total}] {what}"
        if not self._stream.isatty():
            return _PlainStep(label, self._stream)
        if self._rich is None:
            self._rich = self._start_rich()
        return _BarStep(label, self._rich)

    def _start_rich(self) -> RichProgress:
        # Imported here: it costs a tenth of a second, and on most runs nothing has to be shown.
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Display

        display = Display(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("packages"),
            TimeElapsedColumn(),
            console=Console(file=self._stream),
        )
        display.start()
        return display


class _PlainStep:
    def __init__(self, label: str, stream: TextIO) -> None:
        self._label, self._stream = label, stream
        self._start = self._told = time.monotonic()
        self._packages = self._expected = 0
        self._print("")

    def expect(self, packages: int) -> None:
        self._expected += packages

    def advance(self) -> None:
        self._packages += 1
        if time.monotonic() - self._told >= _PLAIN_INTERVAL_S:
            self._print(f": {self._packages} of at most {self._expected} packages, {self._elapsed()}")

    def note(self, text: str) -> None:
        self._print(f": {text}")

    def done(self) -> None:
        self._print(f": done in {self._elapsed()}")

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._start:.0f} s"

    def _print(self, rest: str) -> None:
        self._told = time.monotonic()
        print(f"{self._label}{rest}", file=self._stream, flush=True)


class _BarStep:
    def __init__(self, label: str, display: RichProgress) -> None:
        self._label, self._display = label, display
        self._task = display.add_task(label, total=None)
        self._expected = 0

    def expect(self, packages: int) -> None:
        self._expected += packages
        self._display.update(self._task, total=self._expected)

    def advance(self) -> None:
        self._display.advance(self._task)

    def note(self, text: str) -> None:
        self._display.update(self._task, description=f"{self._label}: {text}")

    def done(self) -> None:
        # Packages that Go had compiled before are not counted, so fill the bar.
        total = max(self._expected, 1)
        self._display.update(self._task, total=total, completed=total)
