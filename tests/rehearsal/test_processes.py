"""Supervised processes: started, watched, and nothing left of them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from rehearsal.engine.process import run_engine
from rehearsal.errors import RehearsalError
from rehearsal.processes import Supervised, Supervisor, free_port
from rehearsal.processes.descendants import MARK, below, descendants, living, mark_of

REPOSITORY = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")

# A process whose helper has a session of its own, has lost its parent and ignores polite requests; then it waits.
FAMILY = """
import os, signal, subprocess, sys, time
orphan = subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 600 & echo $! $$ > helper.pid; wait"], start_new_session=True)
while not os.path.exists("helper.pid") or not open("helper.pid").read().strip():
    time.sleep(0.01)
print("ready", flush=True)
time.sleep(600)
"""

# A supervisor in a process of its own, to be killed. Prints what it has started.
SUPERVISING = """
import json, os, sys, threading, time
from pathlib import Path
from rehearsal.processes import Supervisor
place = Path(sys.argv[1])
supervisor = Supervisor(place)
def start():
    one = supervisor.start("family", [sys.executable, "-c", sys.argv[2]], env={"PATH": os.environ["PATH"]}, cwd=place,
        ready=lambda: None if "ready" in (place / "family.log").read_text() else "not yet", timeout=30)
    print(json.dumps(one.pid), flush=True)
thread = threading.Thread(target=start)
thread.start()
thread.join()
time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < deadline, f"did not happen in time: {what}"
        time.sleep(0.02)


@pytest.fixture
def supervisor(tmp_path: Path) -> Generator[Supervisor]:
    supervisor = Supervisor(tmp_path / "run")
    yield supervisor
    supervisor.stop_all(grace=0)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


ENVIRONMENT = {"PATH": os.environ["PATH"]}


def test_a_started_process_has_a_pid_file_a_log_and_a_session(supervisor: Supervisor, tmp_path: Path) -> None:
    log = tmp_path / "run/one.log"
    one = supervisor.start(
        "one",
        python("import os, time; print(os.environ['SAID'], os.getcwd(), flush=True); time.sleep(600)"),
        env={**ENVIRONMENT, "SAID": "hello"},
        cwd=tmp_path,
        ready=lambda: None if log.read_text() else "silent",
        timeout=30,
    )
    assert one.alive
    assert one.exit_status is None
    assert log.read_text() == f"hello {tmp_path}\n"
    assert (tmp_path / "run/one.pid").read_text() == f"{one.pid}\n"
    assert os.getsid(one.pid) == one.pid
    supervisor.stop("one")
    assert not alive(one.pid)
    assert one.exit_status == -signal.SIGTERM
    assert not (tmp_path / "run/one.pid").exists()
    assert not supervisor.running


def test_the_previous_log_is_kept(supervisor: Supervisor, tmp_path: Path) -> None:
    for word in ("first", "second", "third"):
        supervisor.launch("echo", ["echo", word], env=ENVIRONMENT, cwd=tmp_path)
        wait_until(lambda: bool((tmp_path / "run/echo.log").read_text()), f"echo {word}")
        supervisor.stop("echo")
    assert (tmp_path / "run/echo.log").read_text() == "third\n"
    assert (tmp_path / "run/echo.log.1").read_text() == "second\n"


def test_a_process_that_dies_is_told_with_its_last_lines(supervisor: Supervisor, tmp_path: Path) -> None:
    with pytest.raises(RehearsalError) as caught:
        supervisor.start(
            "shy",
            ["sh", "-c", "for i in 1 2 3 4 5 6 7; do echo line $i; done; exit 3"],
            env=ENVIRONMENT,
            cwd=tmp_path,
            ready=lambda: "not yet",
            timeout=30,
        )
    assert str(caught.value) == (
        "shy: ended with status 3 before it was ready; "
        f"its log says: line 3 | line 4 | line 5 | line 6 | line 7; all of it: {tmp_path}/run/shy.log"
    )
    assert not supervisor.running


def test_a_process_that_is_killed_names_the_signal(supervisor: Supervisor, tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match="shy: was ended by SIGKILL before it was ready; its log says: nothing;"):
        supervisor.start(
            "shy",
            ["sh", "-c", "kill -KILL $$"],
            env=ENVIRONMENT,
            cwd=tmp_path,
            ready=lambda: "not yet",
            timeout=30,
        )


def test_a_process_that_is_not_ready_in_time_is_stopped(supervisor: Supervisor, tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match="slow: not ready after 0 s: still thinking; its log says"):
        supervisor.start(
            "slow", ["sleep", "600"], env=ENVIRONMENT, cwd=tmp_path, ready=lambda: "still thinking", timeout=0.2
        )
    assert not supervisor.running
    assert not list((tmp_path / "run").glob("*.pid"))


def test_a_program_that_is_not_there_is_named(supervisor: Supervisor, tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match=r"ghost: /no/such/program cannot be run in .*: No such file"):
        supervisor.launch("ghost", ["/no/such/program"], env=ENVIRONMENT, cwd=tmp_path)


def test_a_name_runs_once(supervisor: Supervisor, tmp_path: Path) -> None:
    one = supervisor.launch("one", ["sleep", "600"], env=ENVIRONMENT, cwd=tmp_path)
    with pytest.raises(RehearsalError, match=f"one: runs already as process {one.pid}"):
        supervisor.launch("one", ["sleep", "600"], env=ENVIRONMENT, cwd=tmp_path)
    os.kill(one.pid, signal.SIGKILL)
    wait_until(lambda: not one.alive, "its end")
    assert supervisor.launch("one", ["sleep", "600"], env=ENVIRONMENT, cwd=tmp_path).alive


def family(supervisor: Supervisor, place: Path) -> list[int]:
    """Start a family; return the pids of all its members."""
    log = supervisor.directory / "family.log"
    one = supervisor.start(
        "family",
        python(FAMILY),
        env=ENVIRONMENT,
        cwd=place,
        ready=lambda: None if "ready" in log.read_text() else "not yet",
        timeout=30,
    )
    return [one.pid, *map(int, (place / "helper.pid").read_text().split())]


def test_stop_leaves_no_grandchildren(supervisor: Supervisor, tmp_path: Path) -> None:
    pids = family(supervisor, tmp_path)
    other = supervisor.launch("other", ["sleep", "600"], env=ENVIRONMENT, cwd=tmp_path)
    supervisor.stop("family")
    assert not [pid for pid in pids if alive(pid)]
    assert other.alive


def test_what_a_dead_process_has_left_goes_with_its_stop(supervisor: Supervisor, tmp_path: Path) -> None:
    leader, *helpers = family(supervisor, tmp_path)
    os.kill(leader, signal.SIGKILL)
    wait_until(lambda: not alive(leader), "its end")
    assert all(alive(pid) for pid in helpers)
    supervisor.stop("family")
    assert not [pid for pid in helpers if alive(pid)]


def test_a_process_that_does_not_listen_is_killed(supervisor: Supervisor, tmp_path: Path) -> None:
    log = tmp_path / "run/deaf.log"
    deaf = supervisor.start(
        "deaf",
        ["sh", "-c", "trap '' TERM; echo ready; while true; do sleep 0.1; done"],
        env=ENVIRONMENT,
        cwd=tmp_path,
        ready=lambda: None if log.read_text() else "not yet",
        timeout=30,
    )
    started = time.monotonic()
    supervisor.stop("deaf", grace=0.3)
    assert 0.3 <= time.monotonic() - started < 5
    assert deaf.exit_status == -signal.SIGKILL


def test_everything_is_stopped_last_started_first(supervisor: Supervisor, tmp_path: Path) -> None:
    for name in ("first", "second", "third"):
        supervisor.launch(
            name,
            [
                "sh",
                "-c",
                f"trap 'echo {name} >> {tmp_path}/ends; exit' TERM; echo ready; while true; do sleep 0.05; done",
            ],
            env=ENVIRONMENT,
            cwd=tmp_path,
        )
    wait_until(
        lambda: all((tmp_path / f"run/{name}.log").read_text() for name in ("first", "second", "third")), "all ready"
    )
    supervisor.stop_all()
    assert (tmp_path / "ends").read_text().split() == ["third", "second", "first"]
    assert not supervisor.running
    assert not list((tmp_path / "run").glob("*.pid"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_the_supervising_process(number: signal.Signals, tmp_path: Path) -> None:
    # Started from a thread that has ended since, which must not matter.
    with subprocess.Popen(
        [sys.executable, "-c", SUPERVISING, str(tmp_path), FAMILY],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        pids = [int(json.loads(process.stdout.readline())), *map(int, (tmp_path / "helper.pid").read_text().split())]
        assert all(alive(pid) for pid in pids)
        process.send_signal(number)
    wait_until(lambda: not any(alive(pid) for pid in pids), "the end of all that was started")


def test_nothing_is_started_without_a_keeper(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(
        RehearsalError, match="keeper of processes: /bin/false ended with status 1 instead of running it"
    ):
        supervisor.launch("one", ["sleep", "600"], env=ENVIRONMENT, cwd=tmp_path)
    assert not supervisor.running


def test_an_engine_run_leaves_supervised_processes_alone(supervisor: Supervisor, tmp_path: Path) -> None:
    started: list[Supervised] = []

    def start(name: str) -> None:
        started.append(supervisor.launch(name, ["sleep", "600"], env=ENVIRONMENT, cwd=tmp_path))

    other = Supervisor(tmp_path / "other")
    # Of tests that ran before in this process, such as the helpers of Python's own multiprocessing.
    strangers = set(descendants())

    def start_meanwhile() -> None:
        started.append(other.launch("meanwhile", ["sleep", "600"], env=ENVIRONMENT, cwd=tmp_path))

    start("before")
    meanwhile = threading.Timer(0.2, start_meanwhile)
    meanwhile.start()
    try:
        run_engine(["sleep", "0.6"], env=ENVIRONMENT, cwd=tmp_path, quiet=True)
        meanwhile.join()
        assert [one.alive for one in started] == [True, True]
        # Their keepers, too.
        assert set(descendants()) <= strangers
        assert len([pid for pid in below([os.getpid()], living()) if mark_of(pid).endswith("keeper/")]) >= 2
    finally:
        other.stop_all(grace=0)


def test_a_supervised_process_supervises_in_turn(supervisor: Supervisor, tmp_path: Path) -> None:
    log = tmp_path / "run/outer.log"
    outer = supervisor.start(
        "outer",
        [sys.executable, "-c", SUPERVISING, str(tmp_path), FAMILY],
        env={**ENVIRONMENT, "PYTHONPATH": str(REPOSITORY)},
        cwd=tmp_path,
        ready=lambda: None if log.read_text() else "not yet",
        timeout=30,
    )
    inner = int(log.read_text())
    marks = [entry for entry in Path(f"/proc/{inner}/environ").read_text().split("\0") if entry.startswith(f"{MARK}=")]
    assert [mark.count(".") for mark in marks] == [2]
    supervisor.stop("outer", grace=0)
    assert not [pid for pid in (outer.pid, inner) if alive(pid)]


def test_ports_are_free_and_never_the_same() -> None:
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == 50
    for port in ports:
        with socket.socket() as server:
            server.bind(("127.0.0.1", port))


def test_two_processes_do_not_get_the_same_port() -> None:
    # The whole range, so that the other process would have to meet ours if it could.
    code = (
        "import random, sys\nfrom rehearsal.processes import ports\n"
        "ports._FIRST = ports._LAST = int(sys.argv[1])\n"
        "try: print(ports.free_port())\nexcept Exception as error: print(error)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, str(free_port())], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert answer.stdout.startswith("ports: none of ")


def test_a_port_that_is_taken_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr("rehearsal.processes.ports._FIRST", port)
        monkeypatch.setattr("rehearsal.processes.ports._LAST", port)
        with pytest.raises(RehearsalError, match=f"ports: none of {port}-{port} is free"):
            free_port()
