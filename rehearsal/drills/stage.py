"""What a drill works on: a copy of the program, a world of its own, and the commands that a person would type."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

from rehearsal.drills.program import REPOSITORY, copy_program
from rehearsal.engine.state import State, remove_state
from rehearsal.errors import RehearsalError
from rehearsal.helm import find_helm
from rehearsal.processes.descendants import below, living, send
from rehearsal.toolchain.places import STATE_VARIABLE
from rehearsal.world.record import World, places
from rehearsal.world.starting import await_world, stop_world

STACK = "rehearsal"
_TIMEOUT_S = 420
_PAUSE_S = 0.5
QUICK_JOB = (
    "--device=cpu",
    "--ranks-per-node=1",
    "--checkpoint-every=2",
    "--set=data.sequence_length=64",
    "--set=optimizer.learning_rate=3e-3",
)
"""Arguments of a job whose steps take a fraction of a second; the number of steps is to be added."""


class DrillError(RehearsalError):
    """A drill did not end as it has to."""

    def __init__(self, text: str) -> None:
        super().__init__(text, exit_code=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A command that has ended."""

    command: str
    status: int
    seconds: float
    document: Mapping[str, Any]
    """What it printed with --json; empty when it printed none."""
    told: str
    """What it showed on stderr, the engine's display included."""

    def must(self, status: int, *said: str) -> None:
        """Raise DrillError when the run ended otherwise, or did not say one of `said` where a person reads it."""
        errors = "\n".join([*self.document.get("errors", ()), *self.document.get("causes", ()), self.told])
        if self.status != status:
            raise DrillError(f"{self.command}: exit status {self.status}, expected {status}: {errors[-3000:]}")
        for text in said:
            if text not in errors:
                raise DrillError(f"{self.command}: did not say {text!r}: {errors[-3000:]}")


class Stage:
    """One stack that drills share, one after the other. Nothing of the user's rehearsal is touched."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.program = directory / "program"
        self.state = State((directory / "state").resolve())
        self._commands: list[Command] = []
        self.restore()
        self._start()

    def restore(self) -> None:
        """Make the program the repository's own again, with a job of few steps."""
        shutil.rmtree(self.program, ignore_errors=True)
        copy_program(self.program)
        self.clear_faults()
        self.train(*QUICK_JOB, "--steps=4")

    def edit(self, file: str, there: str, instead: str) -> None:
        """Replace a text of the program. Raises DrillError when it is not there once."""
        path = self.program / file
        text = path.read_text(encoding="utf-8")
        if text.count(there) != 1:
            raise DrillError(
                f"{file}: says {there!r} {text.count(there)} times, expected once; the drill has to follow the program"
            )
        path.write_text(text.replace(there, instead), encoding="utf-8")

    def set(self, **settings: object) -> None:
        """Change settings of the stack, by key without the project's name."""
        path = self.program / f"Pulumi.{STACK}.yaml"
        document: dict[str, dict[str, object]] = yaml.safe_load(path.read_text(encoding="utf-8"))
        document["config"].update({f"efa-ray-train:{key}": value for key, value in settings.items()})
        path.write_text(json.dumps(document), encoding="utf-8")

    def train(self, *arguments: str) -> None:
        """Let the job run with these arguments and no others."""
        self.set(trainingArguments=list(arguments))

    def put_fault(self, **fault: object) -> None:
        """Let the local AWS answer with a fault, see rehearsal/local_aws/faults.py."""
        places(self.state).faults.write_text(json.dumps({"faults": [fault]}), encoding="utf-8")

    def clear_faults(self) -> None:
        """Let the local AWS work."""
        places(self.state).faults.unlink(missing_ok=True)

    def world(self) -> World:
        """Return the world once it stands. Raises RehearsalError when there is none."""
        return await_world(self.state)

    def empty(self) -> None:
        """Destroy the stack if a drill before has left it standing."""
        if self.world().used:
            self.down().must(0)

    def up(self, *arguments: str) -> Run:
        """Run `python -m rehearsal up` to its end, with its preview."""
        return self.begin("up", *arguments).end()

    def begin_update(self, *arguments: str) -> Command:
        """Start `python -m rehearsal up` without a preview, which takes time and says nothing that these drills are about."""
        return self.begin("up", "--skip-preview", *arguments)

    def begin_until_ray_cluster(self) -> Command:
        """Start an update and return it when it has made the RayCluster, which is not whole yet."""
        command = self.begin_update()
        command.wait_for("the RayCluster was made", lambda: self.kubectl("get", "raycluster", "-A", "-o", "name"))
        return command

    def update(self, *arguments: str) -> Run:
        """Run `python -m rehearsal up` to its end, without a preview."""
        return self.begin_update(*arguments).end()

    def down(self) -> Run:
        """Run `python -m rehearsal down --keep-world`."""
        return self.begin("down", "--keep-world").end()

    def begin(self, verb: str, *arguments: str) -> Command:
        """Start a command of the rehearsal and do not wait for it."""
        command = Command(verb, self.program, self.state, self.directory, arguments)
        self._commands.append(command)
        return command

    def kubectl(self, *arguments: str) -> str:
        """Return what kubectl prints, nothing when it fails: callers ask again until they see what they wait for."""
        world = self.world()
        answer = subprocess.run(
            [world.kubectl, "--kubeconfig", world.kubeconfig, "--request-timeout=10s", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return answer.stdout if answer.returncode == 0 else ""

    def helm(self, *arguments: str) -> None:
        """Run Helm on the cluster. Raises DrillError when it fails."""
        command = [str(find_helm()), "--kubeconfig", self.world().kubeconfig, *arguments]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if answer.returncode:
            raise DrillError(f"helm {' '.join(arguments)}: {answer.stderr.strip()}")

    def pid(self, process: str) -> int:
        """Return the pid of a process of the world whose name begins with `process`. Raises DrillError when none runs."""
        for path in sorted(places(self.state).processes.glob(f"{process}*.pid")):
            return int(path.read_text(encoding="utf-8"))
        raise DrillError(f"{process}: no such process in this world")

    def renew(self) -> None:
        """Begin with another world and no state: nobody knows what a drill that failed has left."""
        self.close()
        remove_state(self.state)
        self.restore()
        self._start()

    def close(self) -> None:
        """End whatever still runs, and the world with all that is in it."""
        for command in self._commands:
            command.end_now()
        self._commands.clear()
        stop_world(self.state)

    def _start(self) -> None:
        self.begin("start").end().must(0)


class Command:
    """A command of the rehearsal that runs."""

    def __init__(self, verb: str, program: Path, state: State, directory: Path, arguments: Sequence[str]) -> None:
        self.name = verb
        self._begun = time.monotonic()
        self._out, self._err = (directory / f"{verb}-{time.time_ns()}.{kind}" for kind in ("json", "log"))
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rehearsal", verb, "--json", "--directory", str(program), *arguments],
                cwd=REPOSITORY,
                env={**os.environ, STATE_VARIABLE: str(state.root)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def told(self) -> str:
        """Return what it has shown so far."""
        return self._err.read_text(encoding="utf-8", errors="replace")

    def end(self) -> Run:
        """Wait for its end. Raises DrillError when it takes longer than any drill may."""
        try:
            status = self._process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise DrillError(f"{self.name}: did not end in {_TIMEOUT_S} s: {self.told[-3000:]}") from None
        text = self._out.read_text(encoding="utf-8")
        return Run(
            command=self.name,
            status=status,
            seconds=time.monotonic() - self._begun,
            document=cast(dict[str, Any], json.loads(text)) if text.strip() else {},
            told=self.told,
        )

    def wait_for(self, what: str, seen: Callable[[], object]) -> None:
        """Wait until `seen` holds. Raises DrillError when the command ends before."""
        while not seen():
            if self._process.poll() is not None:
                raise DrillError(f"{self.name}: ended before {what}: {self.told[-3000:]}")
            time.sleep(_PAUSE_S)

    def kill(self, world: World) -> None:
        """Kill the command with its engine and the engine's plugins, as a machine that stops would; the world stays."""
        processes = living()
        for pid in [self._process.pid, *below([self._process.pid], processes, without={world.pid})]:
            send(pid, signal.SIGKILL)
        self._process.wait()

    def end_now(self) -> None:
        """Interrupt the command if it still runs, and wait for its end."""
        if self._process.poll() is None:
            self.interrupt()
            self._process.wait(_TIMEOUT_S)

    def interrupt(self) -> None:
        """Interrupt the command once, as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)
