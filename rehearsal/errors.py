"""The one error type that a person sees as a line of text."""

from __future__ import annotations


class RehearsalError(Exception):
    """Say in one line what is wrong and the way out: key or object, found, allowed, what to do.

    The command line prints the text as it is and ends with `exit_code`: 2 for bad usage or input, 1 where a check said no.
    """

    def __init__(self, text: str, *, exit_code: int = 2) -> None:
        super().__init__(text)
        self.exit_code = exit_code
