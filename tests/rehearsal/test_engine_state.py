"""Where state lies, who may remove it, and what is done about locks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from rehearsal.engine.locks import find_locks, remove_stale_locks
from rehearsal.engine.state import STATE_VARIABLE, State, find_state, open_state, remove_state
from rehearsal.errors import RehearsalError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "checkout"
    directory.mkdir()
    return directory


@pytest.fixture
def state(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> State:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    return open_state(project)


def write_lock(state: State, stack: str, *, pid: int, host: str | None = None) -> Path:
    path = state.backend / ".pulumi" / "locks" / "organization" / "shop" / stack / "1234.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"pid": pid, "username": "ann", "hostname": host or socket.gethostname(), "timestamp": "2026-08-01T10:00"}
    path.write_text(json.dumps(content))
    return path


def dead_pid() -> int:
    with subprocess.Popen(["true"]) as process:
        pass
    return process.pid


def test_each_checkout_has_a_state_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STATE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    one, two = find_state(tmp_path / "one"), find_state(tmp_path / "two")
    assert one.root != two.root
    assert one.root.parent == tmp_path / "xdg" / "efa-ray-train"
    assert find_state(tmp_path / "one").root == one.root
    assert not one.root.exists(), "asking makes nothing"


def test_a_state_inside_the_checkout_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(project / "state"))
    with pytest.raises(RehearsalError, match=rf"{STATE_VARIABLE}: .*/state lies inside the checkout .*; set it to"):
        open_state(project)
    assert list(project.iterdir()) == []


def test_a_directory_of_somebody_else_is_neither_used_nor_removed(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").touch()
    with pytest.raises(RehearsalError, match="is not empty and not a rehearsal's"):
        open_state(project)
    with pytest.raises(RehearsalError, match="it is not a rehearsal's; remove it by hand"):
        remove_state(find_state(project))
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["thesis.tex"]


def test_a_state_that_cannot_be_made_is_one_line(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "file" / "state"))
    with pytest.raises(RehearsalError, match=rf"state .*: Not a directory; .* set {STATE_VARIABLE}"):
        open_state(project)


def test_state_is_private_and_removed_whole(state: State) -> None:
    assert state.root.stat().st_mode & 0o077 == 0
    assert remove_state(state)
    assert not state.root.exists()
    assert not remove_state(state)


def test_a_lock_of_a_killed_run_is_removed(state: State) -> None:
    pid = dead_pid()
    path = write_lock(state, "rehearsal", pid=pid)
    assert [lock.pid for lock in remove_stale_locks(state, "rehearsal")] == [pid]
    assert not path.exists()


def test_a_number_that_another_program_has_got_is_no_owner(state: State) -> None:
    path = write_lock(state, "rehearsal", pid=os.getpid())
    assert remove_stale_locks(state, "rehearsal"), "this process is a Python, not an engine"
    assert not path.exists()


def test_a_lock_cut_off_while_it_was_written_is_removed(state: State) -> None:
    path = write_lock(state, "rehearsal", pid=1)
    path.write_text('{"pid": 1')
    assert remove_stale_locks(state, "rehearsal")
    assert not path.exists()


def test_a_lock_of_another_machine_is_named_and_kept(state: State) -> None:
    path = write_lock(state, "rehearsal", pid=dead_pid(), host="elsewhere")
    with pytest.raises(
        RehearsalError, match=r"stack rehearsal: locked by ann@elsewhere \(pid \d+\).*delete .*1234.json"
    ):
        remove_stale_locks(state, "rehearsal")
    assert path.exists()


def test_a_lock_of_a_living_engine_is_named_and_kept(state: State, tmp_path: Path) -> None:
    engine = tmp_path / "pulumi"
    engine.write_bytes(Path("/bin/sleep").read_bytes())
    engine.chmod(0o755)
    with subprocess.Popen([engine, "60"]) as process:
        # The kernel names a process a moment after it has told the parent that the program is loaded.
        while Path(f"/proc/{process.pid}/comm").read_text(encoding="utf-8").strip() != "pulumi":
            os.sched_yield()
        path = write_lock(state, "rehearsal", pid=process.pid)
        try:
            with pytest.raises(RehearsalError, match=rf"pid {process.pid}.*wait for that run or end it"):
                remove_stale_locks(state, "rehearsal")
        finally:
            process.kill()
    assert path.exists()


def test_locks_of_other_stacks_are_left_alone(state: State) -> None:
    path = write_lock(state, "dev", pid=dead_pid())
    assert remove_stale_locks(state, "rehearsal") == []
    assert path.exists()
    assert [lock.stale for lock in find_locks(state)] == [True]
