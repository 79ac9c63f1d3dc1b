"""`python -m rehearsal.local_aws` as a process."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rehearsal.local_aws.__main__ import main
from tests.rehearsal.local_aws_support import Aws

REPOSITORY = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "rehearsal.local_aws"]


def test_it_serves_tells_where_and_cleans_up(tmp_path: Path) -> None:
    note = tmp_path / "state" / "endpoint.json"
    command = [*COMMAND, "--json", "--state-dir", str(note.parent)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        endpoint = json.loads(process.stdout.readline())["endpoint"]
        assert json.loads(note.read_text()) == {"endpoint": endpoint, "pid": process.pid}
        assert Aws(endpoint).client("sts").get_caller_identity()["Account"] == "000000000000"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    assert not note.exists()


def test_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [*COMMAND, "--port", str(port)], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=60
        )
    assert done.returncode == 2
    assert (
        done.stderr.strip()
        == f"local_aws: --port: {port} is in use (Address already in use); choose another, or 0 for a free one"
    )


@pytest.mark.parametrize(
    ("port", "words"), [("99999", "found 99999; allowed 0 to 65535"), ("-1", "found -1; allowed 0 to 65535")]
)
def test_a_port_that_is_none_is_one_line(port: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([f"--port={port}"])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--state-dir", "/proc/nowhere"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "local_aws: /proc/nowhere: No such file or directory; choose another with --state-dir"
