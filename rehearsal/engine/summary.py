"""Count what an engine run would do, from the engine's own event log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, cast

from rehearsal.engine.event_log import read_events


class _Summary(TypedDict, total=False):
    resourceChanges: dict[str, int]


class _PolicyEvent(TypedDict, total=False):
    resourceUrn: str
    message: str
    policyName: str
    policyPackName: str
    enforcementLevel: str


class _Diagnostic(TypedDict, total=False):
    severity: str
    message: str


class _Event(TypedDict, total=False):
    diagnosticEvent: _Diagnostic
    summaryEvent: _Summary
    policyEvent: _PolicyEvent


_MARK = re.compile(r"<\{%[^%]*%\}>")
_PLAN = ("create", "update", "replace", "delete", "read", "import", "same")


@dataclass(frozen=True, slots=True)
class PolicyFinding:
    """What a policy said about a resource, or about the stack (an empty `resource`)."""

    level: str
    """mandatory: the run fails; advisory: it goes on."""
    policy: str
    resource: str
    message: str

    def text(self) -> str:
        """Return the finding in one line."""
        about = f" {self.resource.rsplit('::', 1)[-1]}" if self.resource else ""
        return f"{self.level} {self.policy}{about}: {' '.join(self.message.split())}"


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run found: resources by what would happen to them, what the policies said, and what went wrong."""

    changes: dict[str, int]
    findings: tuple[PolicyFinding, ...]
    errors: tuple[str, ...] = ()
    """What the engine and the program called an error, each once."""

    def num_findings(self, level: str) -> int:
        """Return how many findings are enforced at `level`."""
        return sum(finding.level == level for finding in self.findings)

    @property
    def resources(self) -> int:
        """Return the number of resources that the stack has after the run."""
        return sum(count for what, count in self.changes.items() if what != "delete")

    def text(self) -> str:
        """Return the counts for a line of text, such as `83 resources (80 create, 3 same)`."""
        parts = [f"{self.changes[what]} {what}" for what in _PLAN if self.changes.get(what)]
        parts += [f"{count} {what}" for what, count in sorted(self.changes.items()) if what not in _PLAN]
        return f"{self.resources} resources ({', '.join(parts) or 'none'})"


def read_summary(event_log: Path) -> Summary:
    """Read the engine's event log. A run that failed early has no summary event, and then no resources are counted."""
    changes: dict[str, int] = {}
    findings: list[PolicyFinding] = []
    errors: dict[str, None] = {}
    for event in cast(list[_Event], read_events(event_log)):
        if "summaryEvent" in event:
            changes = event["summaryEvent"].get("resourceChanges", {})
        diagnostic = event.get("diagnosticEvent", {})
        if diagnostic.get("severity") == "error" and (message := diagnostic.get("message", "").strip()):
            # With marks for colours, which the engine resolves where it prints.
            errors[_MARK.sub("", message)] = None
        if "policyEvent" in event:
            said = event["policyEvent"]
            findings.append(
                PolicyFinding(
                    said.get("enforcementLevel", "advisory"),
                    said.get("policyName", ""),
                    said.get("resourceUrn", ""),
                    said.get("message", ""),
                )
            )
    return Summary(dict(changes), tuple(findings), tuple(errors))
