"""What is wrong with a configuration value, as one line."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A refused value: the config key, what was found there, what is allowed and what to do."""

    key: str
    found: str
    allowed: str
    fix: str

    def __str__(self) -> str:
        return f"{self.key}: found {self.found}; allowed: {self.allowed}; {self.fix}"


class SettingsError(Exception):
    """Every problem of one configuration, reported together."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))
