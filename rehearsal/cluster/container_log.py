"""The format of container logs, which `kubectl logs` wants and no program writes: time, stream, tag, text.

Source: https://kubernetes.io/docs/concepts/cluster-administration/logging/ and CRI's definition at
https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import IO, Literal

Stream = Literal["stdout", "stderr"]
_LONGEST = 16 * 1024
"""Bytes of the longest entry that container runtimes write; the rest of a line follows in further ones."""


def log_entry(line: bytes, stream: Stream, time: datetime.datetime) -> bytes:
    """Return the entry for one line of output. A line without its end is marked as a part, and goes on in the next entry."""
    tag = b"F" if line.endswith(b"\n") else b"P"
    stamp = time.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
    return b" ".join((stamp.encode(), stream.encode(), tag, line.removesuffix(b"\n"))) + b"\n"


def keep_log(source: IO[bytes], file: Path, stream: Stream = "stdout") -> None:
    """Copy what a process writes into its container log, each line as it comes, until the process closes `source`."""
    with file.open("ab", buffering=0) as log:
        while line := source.readline(_LONGEST):
            log.write(log_entry(line, stream, datetime.datetime.now(datetime.UTC)))
