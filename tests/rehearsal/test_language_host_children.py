"""The processes that the language host starts: their output, their end, the spare one."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.language_host import RUNNER_VARIABLE
from rehearsal.language_host.protocol import language_pb2
from tests.rehearsal.language_host_support import (
    REPOSITORY,
    Host,
    alive,
    open_host,
    start_host,
    wait_until,
)


@pytest.fixture(params=["", "json.tool no_such_module"], ids=["fresh", "spare"])
def host(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Host]:
    """A host whose program gets a process of its own, and one whose program takes the place of a spare."""
    with open_host(tmp_path, request.param) as opened:
        yield opened


def test_a_spare_has_imported_what_it_was_told_and_is_used_once(tmp_path: Path) -> None:
    (tmp_path / "runner").write_text("import os, sys\nprint(os.getppid(), 'json.tool' in sys.modules, flush=True)\n")
    with open_host(tmp_path, "json.tool") as host:
        assert host.process.stdout is not None
        for expected in (True, False):
            host.ask("Run", host.request(), language_pb2.RunResponse)
            assert host.process.stdout.readline() == f"{host.process.pid} {expected}\n"


def test_a_program_ends_as_python_ends(host: Host) -> None:
    """Its handlers, its threads and its buffered output are not cut off, though the interpreter is not taken apart."""
    code = (
        "import atexit, threading, time\nfile = open(program + '/ending', 'w', buffering=1)\n"
        "atexit.register(lambda: file.write('handler\\n'))\n"
        "threading.Thread(target=lambda: (time.sleep(0.5), file.write('thread\\n'))).start()\n"
    )
    assert host.run(code).error == ""
    assert (host.program / "ending").read_text() == "thread\nhandler\n"
    assert host.run("sys.exit('a reason')").error == "the program ended with exit status 1"
    assert host.run("1 / 0").error == "the program ended with exit status 1"


def test_plugin_output_and_exit_status_are_streamed(host: Host) -> None:
    (host.program / "__main__.py").write_text(
        "import os, sys\n"
        "print(sys.argv[1:], os.environ['COLOUR'], os.getcwd(), flush=True)\n"
        "print('careful', file=sys.stderr)\n"
        "sys.exit(7)\n"
    )
    request = language_pb2.RunPluginRequest(
        pwd=str(host.program.parent), args=["a", "b"], env=["COLOUR=blue=green"], kind="resource", info=host.info()
    )
    messages = list(host.run_plugin(request))
    out = b"".join(message.stdout for message in messages).decode()
    assert out == f"['a', 'b'] blue=green {host.program.parent}\n"
    assert b"".join(message.stderr for message in messages) == b"careful\n"
    assert messages[-1].exitcode == 7


def test_cancelling_a_plugin_ends_its_process(host: Host) -> None:
    (host.program / "__main__.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    request = language_pb2.RunPluginRequest(pwd=str(host.program), kind="resource", info=host.info())
    stream = host.run_plugin(request)
    pid = int(next(stream).stdout)
    assert alive(pid)
    stream.cancel()
    wait_until(lambda: not alive(pid))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")
@pytest.mark.parametrize("how", ["killed", "interrupted", "engine gone"])
def test_a_program_never_outlives_the_host(host: Host, how: str) -> None:
    (host.program / "__main__.py").write_text(
        "import time\nopen(program + '/pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    # Held in a variable: a call that nobody holds is cancelled.
    running = host.method("Run", language_pb2.RunResponse).future(host.request())
    wait_until(lambda: (host.program / "pid").exists() and (host.program / "pid").read_text() != "")
    pid = int((host.program / "pid").read_text())
    assert alive(pid)
    if how == "killed":
        host.process.kill()
    elif how == "interrupted":
        host.process.send_signal(signal.SIGINT)
    else:
        assert host.process.stdin is not None
        host.process.stdin.close()
    host.process.wait(10)
    wait_until(lambda: not alive(pid))
    wait_until(running.done)


def test_a_missing_runner_is_one_line(tmp_path: Path) -> None:
    with start_host(tmp_path / "absent") as process:
        out, err = process.communicate(timeout=20)
    assert process.returncode == 2
    assert out == ""
    assert err.count("\n") == 1
    assert RUNNER_VARIABLE in err
    assert "make preview" in err


def test_the_host_does_not_load_the_whole_sdk() -> None:
    code = "import sys, rehearsal.language_host.service; print('pulumi.runtime' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"
