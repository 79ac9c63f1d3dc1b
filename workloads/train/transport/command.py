"""`python -m train transport LOG...`: what saved logs prove about a run's network.

Exit code 0 when all is what `--expect` says, 1 when it is not or is not proven, 2 for wrong arguments or logs that cannot be read.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import cast, get_args

from ..errors import UsageError
from .classify import classify
from .config import Expect
from .report import table
from .sources import STDIN, read_all

_EPILOG = """verdicts, of every rank and communicator:
  efa              its own lines say: provider efa, network Libfabric, channels via NET/Libfabric
  libfabric-tcp    the plugin was loaded, and libfabric selected another provider
  tcp              NCCL's sockets, asked for (NCCL_NET=Socket or NCCL_NET_PLUGIN=none)
  socket-fallback  NCCL's sockets, not asked for
  local            nothing crosses nodes
  unknown          the lines that would prove it are missing

Ray's driver folds lines of several workers into one; ranks behind it are unproven. Their own files are
/tmp/ray/session_latest/logs/worker-*.out on each node, or the trainer's nccl-*.log."""


def main(arguments: Sequence[str]) -> int:
    """Classify logs, print a table or JSON, and return the exit code. Raises UsageError for logs that cannot be read."""
    parser = argparse.ArgumentParser(
        prog="train transport",
        description="Say over which network a run's NCCL talked, and which line proves it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("logs", nargs="+", metavar="LOG", help=f"file, .gz, directory, or {STDIN} for standard input")
    parser.add_argument(
        "--expect", choices=get_args(Expect), default="efa", help="what all of it must be (default: efa)"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    try:
        options = parser.parse_args(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    try:
        records = read_all(cast(list[str], options.logs))
    except UsageError as error:
        print("\n".join(f"train transport: {line}" for line in str(error).splitlines()), file=sys.stderr, flush=True)
        return error.exit_code
    report = classify(records, cast(Expect, options.expect))
    print(json.dumps(report.to_json(), indent=2) if options.json else table(report), flush=True)
    return 0 if report.good else 1
