"""`python -m rehearsal.local_aws` as a process."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

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
