"""Serve the local AWS: `python -m rehearsal.local_aws [--port N] [--state-dir DIR] [--json]`."""

import argparse
import json
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from .server import LocalAws


def main(arguments: list[str]) -> int:
    """Serve until SIGINT or SIGTERM; 0 when ended so, 2 when the port is taken."""
    parser = argparse.ArgumentParser(
        prog="python -m rehearsal.local_aws", description="Serve the local AWS API on loopback."
    )
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 (the default) takes a free one")
    parser.add_argument(
        "--state-dir", type=Path, help="folder for endpoint.json, which tells others where the server is"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a sentence")
    options = parser.parse_args(arguments)
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    try:
        local = LocalAws(port=options.port, state_dir=options.state_dir)
    except OSError as error:
        print(f"local_aws: {error}", file=sys.stderr)
        return 2
    print(json.dumps({"endpoint": local.endpoint}) if options.json else f"local AWS at {local.endpoint}", flush=True)
    ended.wait()
    local.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
