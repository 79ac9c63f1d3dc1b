"""The counts that a person sees after a run."""

from __future__ import annotations

import json
from pathlib import Path

from rehearsal.engine.summary import read_summary


def write(path: Path, *events: dict[str, object], cut: str = "") -> Path:
    path.write_text("".join(json.dumps(event) + "\n" for event in events) + cut)
    return path


def test_changes_and_findings_are_read(tmp_path: Path) -> None:
    log = write(
        tmp_path / "events.json",
        {"preludeEvent": {}},
        {
            "policyEvent": {
                "enforcementLevel": "mandatory",
                "policyName": "one-az",
                "resourceUrn": "urn:pulumi:dev::shop::aws:eks/nodeGroup:NodeGroup::gpu",
                "message": "two zones\nfound",
            }
        },
        {"policyEvent": {"enforcementLevel": "advisory", "policyName": "stack-rule", "message": "hm"}},
        {"summaryEvent": {"resourceChanges": {"same": 3, "create": 80, "delete": 2, "discard": 1}}},
    )
    summary = read_summary(log)
    assert summary.text() == "84 resources (80 create, 2 delete, 3 same, 1 discard)"
    assert [finding.text() for finding in summary.findings] == [
        "mandatory one-az gpu: two zones found",
        "advisory stack-rule: hm",
    ]
    assert (summary.num_findings("mandatory"), summary.num_findings("advisory")) == (1, 1)


def test_a_log_that_was_cut_off_or_never_begun_counts_what_is_there(tmp_path: Path) -> None:
    finding: dict[str, object] = {"policyEvent": {"enforcementLevel": "mandatory", "policyName": "p", "message": "m"}}
    cut = read_summary(write(tmp_path / "events.json", finding, cut='{"summaryEv'))
    assert (cut.text(), cut.num_findings("mandatory")) == ("0 resources (none)", 1)
    assert read_summary(tmp_path / "absent").text() == "0 resources (none)"
