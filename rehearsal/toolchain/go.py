"""Run the `go` command: its version, its module cache, its builds."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rehearsal.errors import RehearsalError
from rehearsal.toolchain.places import check_places

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_TAIL_LINES = 3
_TAIL_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Go:
    """A Go toolchain."""

    command: str
    version: str


def platform_name() -> str:
    """Return the platform of this machine in Go's words, such as `linux-amd64`."""
    machine = platform.machine().lower()
    return f"{platform.system().lower()}-{_MACHINES.get(machine, machine)}"


def find_go(directory: Path) -> Go | None:
    """Return the Go toolchain that builds in `directory` (its go.mod may select another one), None without a `go`.

    Raises RehearsalError when the `go` on PATH does not run there.
    """
    command = shutil.which("go")
    if command is None:
        return None
    answer = _ask(command, "env", "GOVERSION", directory=directory)
    if answer.returncode != 0:
        said = _one_line(answer.stderr.splitlines())
        raise RehearsalError(
            f"{command}: `go env` failed in {directory}: {said}; install Go 1.26 or newer (https://go.dev/dl/)"
        )
    return Go(command, answer.stdout.strip())


def module_directory(go: Go, module: str, *, directory: Path) -> Path:
    """Download a Go module and return its directory in Go's module cache (read-only).

    `module` is a path whose version the go.mod of `directory` says, or `path@version`. Go checks the hash of what it
    downloads against go.sum or the checksum database. Raises RehearsalError when it cannot be had.
    """
    answer = _ask(go.command, "mod", "download", "-json", module, directory=directory)
    found: dict[str, str] = json.loads(answer.stdout) if answer.stdout.startswith("{") else {}
    if answer.returncode != 0 or "Dir" not in found:
        reason = found.get("Error") or _one_line(answer.stderr.splitlines())
        raise RehearsalError(f"Go module {module}: not downloaded: {reason}; check GOPROXY ({go.command} env GOPROXY)")
    return Path(found["Dir"])


def count_packages(go: Go, package: str, *, directory: Path) -> int:
    """Return how many packages a build of `package` consists of; 0 when Go cannot say, the build will tell why."""
    answer = _ask(go.command, "list", "-deps", package, directory=directory)
    return len(answer.stdout.splitlines()) if answer.returncode == 0 else 0


def build(
    go: Go, package: str, output: Path, *, link_flags: str, directory: Path, log: Path, on_package: Callable[[], None]
) -> None:
    """Build `package` into `output`, stripped and without local paths; `on_package` is called for each one compiled.

    What the compiler says goes to `log`. Raises RehearsalError with its last lines when the build fails.
    """
    command = [go.command, "build", "-v", "-trimpath", "-ldflags", link_flags, "-o", str(output), package]
    log.parent.mkdir(parents=True, exist_ok=True)
    said: deque[str] = deque(maxlen=_TAIL_LINES)
    # A session of its own: the compilers that `go` starts can then be ended together with it.
    with (
        log.open("w", encoding="utf-8") as lines,
        subprocess.Popen(
            command,
            cwd=directory,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process,
    ):
        try:
            for line in process.stdout or ():
                lines.write(line)
                text = line.strip()
                # -v prints a bare import path for each package; everything else is a message.
                if text and " " not in text:
                    on_package()
                elif text and not text.startswith("go: downloading "):
                    said.append(text)
            status = process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if status != 0:
        raise RehearsalError(
            f"go build {package}: failed: {_one_line(said) or f'exit status {status}'}; full log: {log}"
        )


def _ask(command: str, *arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [command, *arguments], cwd=directory, env=_environment(), capture_output=True, text=True, check=False
    )


def _one_line(lines: Sequence[str] | deque[str]) -> str:
    text = " | ".join(line.strip() for line in list(lines)[-_TAIL_LINES:] if line.strip())
    return text if len(text) <= _TAIL_CHARACTERS else f"... {text[-_TAIL_CHARACTERS:]}"


def _environment() -> dict[str, str]:
    # Go keeps its caches below HOME: a relative one would put them beside the sources, and without any Go does not run.
    check_places(os.environ)
    # A go.work above the cache, a GOFLAGS=-mod=vendor or a GOOS of another project must not change what is built.
    kept = {name: value for name, value in os.environ.items() if name not in ("GOOS", "GOARCH")}
    return {"HOME": str(Path.home()), **kept, "GOWORK": "off", "GOFLAGS": "-mod=readonly -buildvcs=false"}
