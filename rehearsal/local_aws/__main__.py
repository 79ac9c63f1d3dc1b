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
    parser.add_argument("--port", type=_port, default=0, help="port to listen on; 0 (the default) takes a free one")
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
        folder = f"{error.filename}: {error.strerror}; choose another with --state-dir"
        print(f"local_aws: {folder if error.filename else error}", file=sys.stderr)
        return 2
    print(json.dumps({"endpoint": local.endpoint}) if options.json else f"local AWS at {local.endpoint}", flush=True)
    ended.wait()
    local.stop()
    return 0


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"found {text}; allowed 0 to 65535; 0 takes a free one")
    return int(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
