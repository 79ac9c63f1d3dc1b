"""Everything that stands ready before the engine runs: programs, state, plugins, environment, stack."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rehearsal.engine.environment import engine_environment
from rehearsal.engine.locks import remove_stale_locks
from rehearsal.engine.plugins import install_plugins
from rehearsal.engine.preload import sdk_modules
from rehearsal.engine.process import Outcome, run_engine
from rehearsal.engine.stacks import Stack, prepare_stack
from rehearsal.engine.state import State, open_state
from rehearsal.errors import RehearsalError
from rehearsal.toolchain.pulumi import Toolchain, find_toolchain


@dataclass(frozen=True, slots=True)
class Session:
    """One stack of one project, ready for engine commands."""

    project: Path
    stack: Stack
    state: State
    toolchain: Toolchain
    environment: Mapping[str, str]

    def run(self, *arguments: str) -> Outcome:
        """Run `pulumi ARGUMENTS` on the stack, in the project's directory, with the settings out of the state."""
        command = [str(self.toolchain.pulumi), *arguments, "--stack", self.stack.name]
        return run_engine([*command, "--config-file", str(self.stack.settings)], env=self.environment, cwd=self.project)


def open_session(project: Path, stack_name: str) -> Session:
    """Get the programs, make the state and the stack where they are missing, and return the session.

    Locks that a killed run left are removed, and told on stderr. Raises RehearsalError for whatever stands in the way.
    """
    if not (project / "Pulumi.yaml").is_file():
        raise RehearsalError(f"{project}: no Pulumi.yaml; name the directory of a Pulumi project with --directory")
    state = open_state(project)
    stack = prepare_stack(project, stack_name, state, os.environ)
    for lock in remove_stale_locks(state, stack_name):
        print(f"stack {stack_name}: removed the lock of a run that was killed (pid {lock.pid})", file=sys.stderr)
    toolchain = find_toolchain()
    install_plugins(state, toolchain)
    environment = engine_environment(os.environ, state, toolchain, preload=sdk_modules(project))
    session = Session(project, stack, state, toolchain, environment)
    if not stack.exists(state):
        _create(session)
    return session


def explain(outcome: Outcome, state: State) -> str | None:
    """Return the way out of a failure that comes from the rehearsal and not from the program, None for any other."""
    told = "\n".join(outcome.errors)
    if "incorrect passphrase" in told:
        return (
            f"passphrase: does not open the rehearsal's state {state.root}; expected the one that it was made with: "
            "set PULUMI_CONFIG_PASSPHRASE to that one, unset it, or start afresh with `make clean-state`"
        )
    if "no space left on device" in told:
        return f"disk: full; the rehearsal writes to {state.root}: make room and run it again"
    return None


def _create(session: Session) -> None:
    command: Sequence[str] = [str(session.toolchain.pulumi), "stack", "init", session.stack.name, "--no-select"]
    outcome = run_engine(command, env=session.environment, cwd=session.state.project, quiet=True)
    if outcome.interrupted:
        raise KeyboardInterrupt
    if outcome.status != 0:
        reason = explain(outcome, session.state)
        raise RehearsalError(
            reason or f"stack {session.stack.name}: not created, the engine said why above; try `make clean-state`"
        )
