"""The real engine, its language host and a policy pack on a small program: what `make preview` does."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rehearsal.engine.state import STATE_VARIABLE
from rehearsal.toolchain.build import cached_tool
from rehearsal.toolchain.pulumi import official_pulumi
from rehearsal.toolchain.tools import ENGINE, HELM, KUBERNETES_PROVIDER

REPOSITORY = Path(__file__).resolve().parents[2]
SHOP = Path(__file__).with_name("fixtures") / "shop"


@dataclass(frozen=True)
class Shop:
    """A copy of the small project with a state of its own."""

    project: Path
    state: Path
    environment: dict[str, str]

    def command(self, verb: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "rehearsal", verb, "--directory", str(self.project), *arguments]

    def run(self, verb: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(verb, *arguments),
            cwd=REPOSITORY,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    @contextmanager
    def start(self, verb: str, *arguments: str) -> Generator[subprocess.Popen[str]]:
        with subprocess.Popen(
            self.command(verb, *arguments),
            cwd=REPOSITORY,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def files(self) -> dict[str, bytes]:
        found = (path for path in self.project.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {str(path.relative_to(self.project)): path.read_bytes() for path in found}

    def processes(self) -> list[int]:
        """Return the processes that the rehearsal has started, known by their environment."""
        mark = f"PULUMI_HOME={self.state}".encode()
        found: list[int] = []
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (directory / "environ").read_bytes():
                    found.append(int(directory.name))
            except OSError:
                continue  # it has ended meanwhile
        return found


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    project, state = tmp_path / "shop", tmp_path / "state"
    shutil.copytree(SHOP, project)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_CONFIG_PASSPHRASE")}
    return Shop(project, state, {**kept, STATE_VARIABLE: str(state)})


@pytest.fixture
def engine() -> None:
    """Fail at once where the engine is not there: building it takes longer than a test may."""
    built = cached_tool(ENGINE) is not None and cached_tool(KUBERNETES_PROVIDER) is not None
    if not built and official_pulumi() is None:
        pytest.fail("no engine to test with; run `make bootstrap`")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.05)


@pytest.mark.usefixtures("engine")
def test_a_preview_with_policies_passes_and_leaves_the_project_as_it_was(shop: Shop) -> None:
    before = shop.files()
    first = shop.run("preview")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "shop-rules@v0.0.1" in first.stdout
    summary = first.stdout.splitlines()[-1]
    assert summary.startswith(
        "preview of rehearsal passed: 5 resources (5 create), policies on (0 mandatory, 0 advisory"
    )
    assert first.stderr == ""
    assert shop.files() == before, "the engine has written into the project"
    assert "encryptionsalt: " in (shop.state / "project/Pulumi.rehearsal.yaml").read_text()
    assert list(shop.state.glob("run-*")) == []

    second = shop.run("preview", "--no-policies", "--diff")
    assert second.returncode == 0, second.stdout + second.stderr
    assert "shop-rules" not in second.stdout
    assert "numShelves: 3" in second.stdout, "further arguments go to the engine"
    assert ", policies off, " in second.stdout.splitlines()[-1]
    assert shop.processes() == []


@pytest.mark.usefixtures("engine")
def test_a_mandatory_violation_fails_the_preview(shop: Shop) -> None:
    answer = shop.run("preview", "--stack", "crowded")
    assert answer.returncode == 1
    assert "4 shelves, allowed are 3: take one away" in answer.stdout
    assert answer.stdout.splitlines()[-1].startswith("preview of crowded failed: ")
    assert "policies on (1 mandatory, 0 advisory findings)" in answer.stdout.splitlines()[-1]


@pytest.mark.usefixtures("engine")
def test_json_is_all_that_goes_to_stdout(shop: Shop) -> None:
    answer = shop.run("preview", "--stack", "crowded", "--json")
    assert answer.returncode == 1
    steps = json.loads(answer.stdout)["steps"]
    assert sum(step["newState"]["type"] == "shop:index:Shelf" for step in steps) == 4
    told = answer.stderr.splitlines()
    assert told[0].startswith("mandatory few-shelves shop-crowded: ")
    assert told[0].endswith(" 4 shelves, allowed are 3: take one away")
    assert told[1].startswith("preview of crowded failed: 6 resources (6 create)")


@pytest.mark.usefixtures("engine")
def test_a_program_that_fails_and_a_flag_that_is_none(shop: Shop) -> None:
    failed = shop.run("preview", "--config", "shop:fail=true")
    assert failed.returncode == 1
    assert "the shop burned down" in failed.stdout
    assert failed.stdout.splitlines()[-1].startswith("preview of rehearsal failed: 1 resources ")
    assert failed.stderr == ""
    unknown = shop.run("preview", "--no-such-flag")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert unknown.stderr == "error: unknown flag: --no-such-flag\n"


@pytest.mark.usefixtures("engine")
def test_another_passphrase_than_the_states_is_one_line(shop: Shop) -> None:
    assert shop.run("preview", "--no-policies", PULUMI_CONFIG_PASSPHRASE="one").returncode == 0
    answer = shop.run("preview", "--no-policies", PULUMI_CONFIG_PASSPHRASE="two")
    assert answer.returncode == 2
    last = answer.stderr.splitlines()[-1]
    assert last.startswith(f"passphrase: does not open the rehearsal's state {shop.state}")
    assert "make clean-state" in last


@pytest.mark.usefixtures("engine")
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
@pytest.mark.parametrize("how", ["interrupted", "engine killed"])
def test_a_run_that_is_cut_off_leaves_no_process_and_the_next_one_works(shop: Shop, how: str) -> None:
    program = shop.project / "__main__.py"
    whole = program.read_text()
    program.write_text(f"import pathlib, time\npathlib.Path({str(shop.state / 'began')!r}).touch()\ntime.sleep(600)\n")
    with shop.start("preview") as process:
        wait_until((shop.state / "began").exists)
        assert shop.processes() != []
        if how == "interrupted":
            process.send_signal(signal.SIGINT)
        else:
            engines = [pid for pid in shop.processes() if Path(f"/proc/{pid}/comm").read_text() == "pulumi\n"]
            assert len(engines) == 1
            os.kill(engines[0], signal.SIGKILL)
        _, err = process.communicate(timeout=60)
    assert shop.processes() == []
    if how == "interrupted":
        assert process.returncode == 130
        assert err.splitlines()[-1] == "interrupted; nothing is left running"
    else:
        assert process.returncode == 1
        assert err == "the engine was killed (signal 9, often for lack of memory); run it again\n"
    assert list(shop.state.glob("run-*")) == []

    # A killed engine may leave its lock as well.
    lock = shop.state / "backend/.pulumi/locks/organization/shop/rehearsal/1234.json"
    lock.parent.mkdir(parents=True, exist_ok=True)
    owner = {"pid": process.pid, "username": "ann", "hostname": socket.gethostname(), "timestamp": "2026-08-01T10:00"}
    lock.write_text(json.dumps(owner))
    program.write_text(whole)
    answer = shop.run("preview", "--no-policies")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stderr == f"stack rehearsal: removed the lock of a run that was killed (pid {process.pid})\n"
    assert not lock.exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("--stack", "prod"),
            "stack prod: no Pulumi.prod.yaml; there are crowded, rehearsal: choose one with STACK=NAME",
        ),
        (("--config-file=x",), "--config-file: set by the rehearsal itself; edit Pulumi.STACK.yaml"),
        (("-s", "prod"), "-s: set by the rehearsal itself; use STACK=NAME with make"),
        (("-dsprod",), "-dsprod: set by the rehearsal itself; use STACK=NAME with make"),
        (("-j",), "-j: set by the rehearsal itself; use --json"),
        (("-dC/tmp",), "-dC/tmp: set by the rehearsal itself; use -C or --directory"),
        (("--cwd=/tmp",), "--cwd: set by the rehearsal itself; use -C or --directory"),
        (("--remote",), "--remote: set by the rehearsal itself; a rehearsal runs on this machine alone"),
    ],
)
def test_bad_input_is_one_line_and_makes_nothing(shop: Shop, arguments: tuple[str, ...], line: str) -> None:
    answer = shop.run("preview", *arguments)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith(line)
    assert answer.stderr.count("\n") == 1
    assert not (shop.state / "backend/.pulumi").exists()


def test_a_missing_policy_pack_is_not_passed_over(shop: Shop) -> None:
    (shop.project / "policies/PulumiPolicy.yaml").unlink()
    answer = shop.run("preview")
    assert answer.returncode == 2
    assert answer.stderr.startswith(f"policies: no {shop.project}/policies/PulumiPolicy.yaml; restore the policy pack")


def test_a_directory_without_a_project_is_one_line(shop: Shop) -> None:
    (shop.project / "Pulumi.yaml").unlink()
    answer = shop.run("preview")
    assert answer.returncode == 2
    assert answer.stderr == f"{shop.project}: no Pulumi.yaml; name the directory of a Pulumi project with --directory\n"


def test_clean_removes_the_state_and_nothing_else(shop: Shop) -> None:
    assert json.loads(shop.run("clean", "--json").stdout) == {"state": str(shop.state), "removed": False}
    shop.state.mkdir()
    (shop.state / "checkout").touch()
    before = shop.files()
    answer = shop.run("clean")
    assert (answer.returncode, answer.stdout) == (0, f"removed {shop.state}\n")
    assert not shop.state.exists()
    assert shop.files() == before


def test_doctor_says_what_is_missing_and_what_to_do(shop: Shop, tmp_path: Path) -> None:
    answer = shop.run("doctor", "--json", PATH="", EFA_RAY_TRAIN_CACHE=str(tmp_path / "empty"))
    assert answer.returncode == 1
    found = {finding["name"]: finding for finding in json.loads(answer.stdout)}
    assert found["stacks"]["found"] == "crowded, rehearsal"
    assert found["state"]["good"]
    engine = found[f"pulumi {ENGINE.version}"]
    assert not engine["good"]
    assert "install Go" in engine["fix"]
    assert found["go"]["found"] == "not on PATH"
    assert "it has to build pulumi, pulumi-kubernetes, helm" in found["go"]["fix"]
    assert "install Go" in found[f"helm {HELM.version}"]["fix"]
    assert found["cache"]["good"]
    assert not shop.state.exists(), "the doctor only looks"


def test_doctor_finds_a_cache_that_cannot_be_written(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    answer = shop.run("doctor", "--json", EFA_RAY_TRAIN_CACHE=str(tmp_path / "file/cache"))
    found = {finding["name"]: finding for finding in json.loads(answer.stdout)}
    assert found["cache"]["found"] == f"{tmp_path}/file/cache, and {tmp_path}/file is not a directory"
    assert found["cache"]["fix"] == "set EFA_RAY_TRAIN_CACHE to another directory"


@pytest.mark.parametrize("verb", ["bootstrap", "clean", "doctor", "preview"])
def test_a_directory_that_is_not_there_is_one_line(shop: Shop, verb: str) -> None:
    shutil.rmtree(shop.project)
    answer = shop.run(verb)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == f"{shop.project}: no such directory; name that of a Pulumi project with --directory\n"


def test_a_failing_disk_is_one_line(shop: Shop) -> None:
    shop.state.mkdir()
    (shop.state / "checkout").touch()
    (shop.state / "in-use").mkdir()
    for verb in ("preview", "clean"):
        answer = shop.run(verb)
        assert (answer.returncode, answer.stdout) == (2, "")
        assert answer.stderr.startswith(f"{shop.state}/in-use: Is a directory; make it writable and make room there")
        assert answer.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="writes to /dev/full")
def test_output_that_cannot_be_written_is_one_line(shop: Shop) -> None:
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run(
            shop.command("doctor"),
            cwd=REPOSITORY,
            env=shop.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert answer.returncode == 2
    assert answer.stderr.startswith(b"output: No space left on device; ")
    assert answer.stderr.count(b"\n") == 1


def test_arguments_that_no_verb_knows_are_refused(shop: Shop) -> None:
    answer = shop.run("clean", "--force")
    assert answer.returncode == 2
    assert answer.stderr.splitlines()[-1].endswith("unrecognized arguments: --force")
