"""What is done before and after the engine, with a script in the engine's place."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from rehearsal.engine.state import STATE_VARIABLE
from rehearsal.toolchain.tools import KUBERNETES_PROVIDER

REPOSITORY = Path(__file__).resolve().parents[2]
SHOP = Path(__file__).with_name("fixtures") / "shop"
INIT = '[ "$1" = stack ] && exit 0\n'


@dataclass(frozen=True)
class Shop:
    """A copy of the small project, a state of its own and an installed Pulumi that is a script."""

    root: Path
    environment: dict[str, str]

    @property
    def project(self) -> Path:
        return self.root / "shop"

    @property
    def state(self) -> Path:
        return self.root / "state"

    def engine(self, script: str) -> None:
        """Let the engine do this."""
        program = self.root / "bin/pulumi"
        program.write_text(f'#!/bin/sh\necho "$@" >> {self.root}/ran\n{script}\n')
        program.chmod(0o755)

    def ran(self) -> bool:
        return (self.root / "ran").exists()

    def command(self, verb: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "rehearsal", verb, "-C", str(self.project), *arguments]

    def run(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(verb, *arguments),
            cwd=REPOSITORY,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shutil.copytree(SHOP, tmp_path / "shop")
    plugins = tmp_path / f"pulumi/plugins/resource-kubernetes-v{KUBERNETES_PROVIDER.version}"
    plugins.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    for program in (plugins / "pulumi-resource-kubernetes", tmp_path / "bin/pulumi-language-python"):
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PULUMI_HOME": str(tmp_path / "pulumi"),
        STATE_VARIABLE: str(tmp_path / "state"),
    }
    return Shop(tmp_path, environment)


def write_settings(project: Path, code: str) -> None:
    (project / "settings").mkdir()
    (project / "settings/__main__.py").write_text(code)


def test_a_stack_that_is_not_created_says_what_the_engine_said(shop: Shop) -> None:
    shop.engine("echo 'error: first' >&2; echo 'error: no luck' >&2; exit 255")
    answer = shop.run("preview")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == (
        "stack rehearsal: not created, the engine said: error: first | error: no luck; try `make clean-state`\n"
    )


def test_a_killed_engine_is_one_line(shop: Shop) -> None:
    shop.engine(f"{INIT}kill -9 $$")
    answer = shop.run("preview")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == "the engine was killed (signal 9, often for lack of memory); run it again\n"


def test_settings_that_are_refused_stop_before_the_engine(shop: Shop) -> None:
    shop.engine("")
    write_settings(
        shop.project, "import sys\nprint(f'size: wrong in {sys.argv[1]}')\nprint('colour: too')\nsys.exit(2)\n"
    )
    answer = shop.run("preview")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == "size: wrong in Pulumi.rehearsal.yaml\ncolour: too\n"
    assert not shop.ran()


@pytest.mark.parametrize(
    ("code", "arguments"), [("print('warning: dear')", ()), ("import sys; sys.exit(2)", ("--config", "shop:size=3"))]
)
def test_warnings_and_settings_of_the_command_line_are_left_to_the_program(
    shop: Shop, code: str, arguments: tuple[str, ...]
) -> None:
    shop.engine(f"{INIT}exit 0")
    write_settings(shop.project, code)
    answer = shop.run("preview", *arguments)
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""
    assert shop.ran()


def test_a_state_in_use_is_not_removed_and_what_killed_runs_left_is_swept(shop: Shop) -> None:
    shop.engine(f"{INIT}touch {shop.root}/began; while [ ! -e {shop.root}/go ]; do sleep 0.05; done")
    with subprocess.Popen(
        shop.command("preview"),
        cwd=REPOSITORY,
        env=shop.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        process_group=0,
    ) as process:
        try:
            deadline = time.monotonic() + 30
            while not (shop.root / "began").exists():
                assert time.monotonic() < deadline, "did not begin in time"
                time.sleep(0.05)
            (own,) = shop.state.glob("run-*")
            answer = shop.run("clean")
            assert answer.returncode == 2
            assert answer.stderr == (
                f"state {shop.state}: a preview is running in this state (pid {process.pid}); wait for it or end it\n"
            )
            # A second run shares the state, and takes nothing from the first.
            (shop.root / "go").touch()
            process.send_signal(signal.SIGSTOP)
            assert shop.run("preview").returncode == 0
            assert own.exists()
        finally:
            process.kill()
    assert own.exists(), "a killed run leaves its directory"
    assert shop.run("preview").returncode == 0
    assert list(shop.state.glob("run-*")) == []
    assert shop.run("clean").returncode == 0
    assert not shop.state.exists()
