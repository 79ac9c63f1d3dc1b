"""Everything that stands ready before the engine runs: programs, state, plugins, environment, stack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rehearsal.engine.environment import engine_environment
from rehearsal.engine.locks import remove_stale_locks
from rehearsal.engine.plugins import install_plugins
from rehearsal.engine.preload import sdk_modules
from rehearsal.engine.process import Outcome, run_engine
from rehearsal.engine.stacks import Stack, prepare_stack
from rehearsal.engine.state import State
from rehearsal.errors import RehearsalError
from rehearsal.toolchain.pulumi import Toolchain, find_toolchain
from rehearsal.world.record import World, engine_variables

_REFUSED = 2
_TOLD_LINES = 3


@dataclass(frozen=True, slots=True)
class Session:
    """One stack of one project, ready for engine commands."""

    project: Path
    stack: Stack
    state: State
    toolchain: Toolchain
    environment: Mapping[str, str]

    def run(self, *arguments: str, stdout: IO[str] | None = None) -> Outcome:
        """Run `pulumi ARGUMENTS` on the stack, in the project's directory, with the settings out of the state.

        What it shows goes to `stdout`, a file with a descriptor of its own, or where ours goes.
        """
        command = [str(self.toolchain.pulumi), *arguments, "--stack", self.stack.name]
        command += ["--config-file", str(self.stack.settings)]
        return run_engine(command, env=self.environment, cwd=self.project, stdout=stdout)

    def outputs(self) -> dict[str, Any]:
        """Return the stack's outputs, the secret ones without their values. Raises RehearsalError when the engine has none to give."""
        return self._ask("output", "--json")

    def resources(self, token: str) -> list[Mapping[str, Any]]:
        """Return the outputs of each resource of this type in the state. Raises RehearsalError when the engine does not give it."""
        found: list[Mapping[str, Any]] = self._ask("export").get("deployment", {}).get("resources") or []
        return [resource.get("outputs") or {} for resource in found if resource.get("type") == token]

    def _ask(self, *arguments: str) -> dict[str, Any]:
        answer = subprocess.run(
            [str(self.toolchain.pulumi), "stack", *arguments, "--stack", self.stack.name],
            env=dict(self.environment),
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode != 0:
            told = " ".join(answer.stderr.split())[-300:]
            raise RehearsalError(f"stack {self.stack.name}: `pulumi stack {arguments[0]}` failed: {told}")
        return json.loads(answer.stdout)


def check_project(project: Path) -> None:
    """Raise RehearsalError when `project` is not the directory of a Pulumi project."""
    if not (project / "Pulumi.yaml").is_file():
        raise RehearsalError(f"{project}: no Pulumi.yaml; name the directory of a Pulumi project with --directory")


def open_session(
    project: Path, stack_name: str, state: State, *, check_settings: bool = True, world: World | None = None
) -> Session:
    """Get the programs, make the stack in the opened `state` where it is missing, and return the session.

    With `world`, the world that stands for this stack, the engine reaches that one; without, it reaches nothing.

    With `check_settings` the project's `settings` package, where it has one, judges the stack file before anything is got.

    Locks that a killed run left are removed, and told on stderr. Raises RehearsalError for whatever stands in the way.
    """
    stack = prepare_stack(project, stack_name, state, os.environ, world.overrides if world else {})
    if check_settings:
        _check_settings(project, stack)
    for lock in remove_stale_locks(state, stack_name):
        print(f"stack {stack_name}: removed the lock of a run that was killed (pid {lock.pid})", file=sys.stderr)
    toolchain = find_toolchain()
    install_plugins(state, toolchain)
    environment = engine_environment(os.environ, state, toolchain, preload=sdk_modules(project))
    if world is not None:
        environment.update(engine_variables(world))
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


def stop_if_cut_off(outcome: Outcome) -> None:
    """Raise KeyboardInterrupt when the run was interrupted, RehearsalError (exit 1) when a signal has killed the engine."""
    if outcome.interrupted:
        raise KeyboardInterrupt
    if outcome.status < 0:
        raise RehearsalError(
            f"the engine was killed (signal {-outcome.status}, often for lack of memory); run it again", exit_code=1
        )


def _check_settings(project: Path, stack: Stack) -> None:
    """Raise RehearsalError, one line a problem, when the project's own check refuses the stack file."""
    if not (project / "settings" / "__main__.py").is_file():
        return
    answer = subprocess.run(
        [sys.executable, "-m", "settings", f"Pulumi.{stack.name}.yaml"],
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    # Any other status is a fault of the check itself, which the program has as well and then tells whole.
    if answer.returncode == _REFUSED:
        raise RehearsalError((answer.stdout + answer.stderr).strip())


def _create(session: Session) -> None:
    command: Sequence[str] = [str(session.toolchain.pulumi), "stack", "init", session.stack.name, "--no-select"]
    outcome = run_engine(command, env=session.environment, cwd=session.state.project, quiet=True)
    stop_if_cut_off(outcome)
    if outcome.status != 0:
        reason = explain(outcome, session.state)
        said = [line.strip() for line in outcome.errors if line.strip()][-_TOLD_LINES:]
        told = " | ".join(said) or f"exit status {outcome.status}"
        raise RehearsalError(
            reason or f"stack {session.stack.name}: not created, the engine said: {told}; try `make clean-state`"
        )
