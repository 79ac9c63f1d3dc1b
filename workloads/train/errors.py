"""Errors that end a run, each as one line."""


class TrainingError(Exception):
    """Say in one line what ended the run: object, found, allowed, what to do.

    Such an error is never cured by another try, so the run ends with it. `exit_code` is 2 for bad usage and 1 for the rest.
    """

    def __init__(self, text: str, exit_code: int = 1) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class UsageError(TrainingError):
    """Say what is wrong with the arguments, one line for each."""

    def __init__(self, text: str) -> None:
        super().__init__(text, 2)


class StoreError(TrainingError):
    """Say which store refused what, and with which words."""
