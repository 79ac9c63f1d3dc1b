"""Preview a stack with the real engine and the policy pack, against this machine alone."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rehearsal.engine.session import check_project, explain, open_session, stop_if_cut_off
from rehearsal.engine.summary import Summary, read_summary
from rehearsal.engine.usage import run_directory
from rehearsal.errors import RehearsalError
from rehearsal.world.record import find_world

_OWN_FLAGS = {
    "--config-file": "edit Pulumi.STACK.yaml, the rehearsal reads a copy of it",
    "--stack": "use STACK=NAME with make, or --stack once",
    "--json": "use --json, alone",
    "--cwd": "use -C or --directory",
    "--event-log": "the rehearsal takes its summary from it",
    "--remote": "a rehearsal runs on this machine alone",
}
_SHORT = {"s": "--stack", "j": "--json", "C": "--cwd"}
_SHORT_SWITCHES = "der"
"""Short flags of `pulumi preview` that stand without a value, so others may follow in the same argument."""


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
    check_project(project)
    # What is given on the command line may mend what the file lacks: then the program alone can judge.
    from_file = not any(argument.startswith(("--config", "-c")) for argument in extra)
    with run_directory(project) as (state, directory):
        world = find_world(state)
        if world is not None and world.stack != stack:
            world = None
        session = open_session(project, stack, state, check_settings=from_file, world=world)
        event_log = directory / "events.json"
        outcome = session.run(*arguments, "--event-log", str(event_log))
        began = event_log.exists()
        summary = read_summary(event_log)
    stop_if_cut_off(outcome)
    reason = explain(outcome, state) if outcome.status else None
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
        long = flag if flag.startswith("--") else _own_short(flag)
        if long in _OWN_FLAGS:
            raise RehearsalError(f"{flag}: set by the rehearsal itself; {_OWN_FLAGS[long]}")


def _own_short(flag: str) -> str:
    """Return the long form of the first short flag that is ours in an argument such as `-j` or `-dsdev`, "" for none."""
    for letter in flag[1:] if flag.startswith("-") else "":
        if letter in _SHORT:
            return _SHORT[letter]
        if letter not in _SHORT_SWITCHES:
            break
    return ""


def _line(stack: str, passed: bool, summary: Summary, *, policies: bool, seconds: float) -> str:
    ending = "passed" if passed else "failed"
    if not summary.changes:
        return f"preview of {stack} {ending} before its resources were counted, {seconds:.1f} s"
    mandatory, advisory = (summary.num_findings(level) for level in ("mandatory", "advisory"))
    judged = f"policies on ({mandatory} mandatory, {advisory} advisory findings)" if policies else "policies off"
    return f"preview of {stack} {ending}: {summary.text()}, {judged}, {seconds:.1f} s"
