"""What ended a run, in one line: the root, not what it made of the other ranks and of Ray."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

LONGEST = 1000
"""Characters of a line; RayJob's status.message has room for 20,000 with all lines of the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The end of a run that did not succeed."""

    text: str
    exit_code: int = 1
    traceback: str = ""


def one_line(text: object) -> str:
    """Return a text without line breaks, cut where it is too long to be read."""
    line = " ".join(str(text).split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 4]} ..."


def said(error: BaseException) -> str:
    """Return an error in one line; the class goes before words that may not stand alone."""
    return one_line(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def root(error: BaseException, ranks: Sequence[Mapping[str, object]]) -> str:
    """Return what lies under the error that Ray Train raised.

    A rank that died comes first: what the others then say, of a connection that was closed, is its consequence. `ranks` are those of
    the plan, to tell where a rank was.
    """
    found = cast(Mapping[int, BaseException], getattr(error, "worker_failures", {}))
    if not found:
        under = getattr(error, "controller_failure", None) or error
        return f"Ray Train: {said(cast(BaseException, under))}"
    deaths = {rank: failure for rank, failure in found.items() if _death(failure) is not None}
    rank, failure = min((deaths or found).items())
    death = _death(failure)
    return f"{where(rank, ranks)} " + (f"died: {_cause_of(death)}" if death is not None else f"failed: {said(failure)}")


def where(rank: int, ranks: Sequence[Mapping[str, object]]) -> str:
    """Return a rank with its process and node, as far as they are known."""
    for one in ranks:
        if one.get("rank") == rank:
            return f"rank {rank} (pid {one.get('pid')} on node {one.get('node')})"
    return f"rank {rank}"


def _cause_of(death: object) -> str:
    """Return Ray's reason without the actor's ids before it and the guesses after it."""
    _, _, reason = one_line(death).partition(" because ")
    return reason.partition(" Some common causes ")[0] or one_line(death)


def _death(failure: BaseException) -> object | None:
    """Return what Ray says about a process that ended, or None where the program itself raised."""
    return getattr(failure, "health_check_failure", None)
