"""A rule over several settings: what it reads and the problems it finds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from settings.fields import Settings
from settings.problems import Problem

Check = Callable[[Settings], Iterator[Problem]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A check and the fields that it reads; it runs only when each of them holds a good value."""

    reads: frozenset[str]
    check: Check


def reads(*fields: str) -> Callable[[Check], Rule]:
    """Declare the fields (`gpu_node_count`, or `region`) that a check reads, and make a rule of it."""
    return lambda check: Rule(frozenset(fields), check)
