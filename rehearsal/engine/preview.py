"""Preview a stack with the real engine and the policy pack, against this machine alone."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rehearsal.engine.session import explain, open_session
from rehearsal.engine.summary import Summary, read_summary
from rehearsal.errors import RehearsalError

_OWN_FLAGS = {
    "--config-file": "edit Pulumi.STACK.yaml, the rehearsal reads a copy of it",
    "--stack": "use STACK=NAME with make, or --stack once",
    "--event-log": "the rehearsal takes its summary from it",
    "--remote": "a rehearsal runs on this machine alone",
}


def preview(project: Path, stack: str, *, json_output: bool, policies: bool, extra: Sequence[str]) -> int:
    """Show what `pulumi up` would do and return the exit status: 0, 1 when program or policies say no, 2 for bad input.

    With `json_output` stdout holds the engine's JSON and nothing else. Raises RehearsalError before the engine runs.
    """
    begun = time.monotonic()
    _check_flags(extra)
    arguments = ["preview", *extra]
    if json_output:
        arguments.append("--json")
    if policies:
        pack = project / "policies"
        if not (pack / "PulumiPolicy.yaml").is_file():
            raise RehearsalError(
                f"policies: no {pack / 'PulumiPolicy.yaml'}; restore the policy pack, or pass --no-policies"
            )
        arguments += ["--policy-pack", str(pack)]
    session = open_session(project, stack)
    with tempfile.TemporaryDirectory(dir=session.state.root, prefix="run-") as directory:
        event_log = Path(directory) / "events.json"
        outcome = session.run(*arguments, "--event-log", str(event_log))
        began = event_log.exists()
        summary = read_summary(event_log)
    if outcome.interrupted:
        raise KeyboardInterrupt
    reason = explain(outcome, session.state) if outcome.status else None
    if reason is not None:
        raise RehearsalError(reason)
    if not began and outcome.status > 0:
        # Flags, settings or the project itself: the engine has said what is wrong before it ran anything.
        return 2
    if json_output:
        # The engine's JSON of a preview leaves out what the policies said.
        for finding in summary.findings:
            print(finding.text(), file=sys.stderr)
    line = _line(stack, outcome.status == 0, summary, policies=policies, seconds=time.monotonic() - begun)
    print(line, file=sys.stderr if json_output else sys.stdout)
    return 0 if outcome.status == 0 else 1


def _check_flags(extra: Sequence[str]) -> None:
    for argument in extra:
        flag = argument.split("=", 1)[0]
        if flag in _OWN_FLAGS:
            raise RehearsalError(f"{flag}: set by the rehearsal itself; {_OWN_FLAGS[flag]}")


def _line(stack: str, passed: bool, summary: Summary, *, policies: bool, seconds: float) -> str:
    ending = "passed" if passed else "failed"
    if not summary.changes:
        return f"preview of {stack} {ending} before its resources were counted, {seconds:.1f} s"
    mandatory, advisory = (summary.num_findings(level) for level in ("mandatory", "advisory"))
    judged = f"policies on ({mandatory} mandatory, {advisory} advisory findings)" if policies else "policies off"
    return f"preview of {stack} {ending}: {summary.text()}, {judged}, {seconds:.1f} s"
