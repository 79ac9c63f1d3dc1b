"""One line of a log: who wrote it and what NCCL says in it, without the decoration of Ray, terminals and container runtimes.

Forms as NCCL's src/debug.cc writes them (2.4 to 2.30): `host:pid:tid [device] NCCL INFO ...`; since about 2.27 a warning has the time in
front and its function before `NCCL WARN`. Ray's form is that of ray/_private/ray_logging: colours, `(Name pid=1, ip=10.0.0.5) `, and
`[repeated 3x across cluster]` behind a line that stands for several.
"""

import re
import string
from dataclasses import dataclass

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_RAY = re.compile(r"\([^()]*(?:\([^()]*\))?[^()]*\bpid=\d+(?:, ip=([0-9A-Fa-f.:]+))?\)")
_REPEATED = re.compile(r"\s*\[repeated (\d+)x across cluster\].*$")
_PREFIX = re.compile(r":(\d+):(\d+) \[-?\d+\] (.*?)NCCL (INFO|WARN|TRACE) (.*)")
_HOST = f"{string.ascii_letters}{string.digits}._-"
_HEAD = re.compile(r":\d+:\d+ \[-?\d+\] |NCCL (?:INFO|WARN) ")


@dataclass(frozen=True, slots=True)
class Written:
    """A line of NCCL. `repeated` is the number of lines that Ray let it stand for, itself included; 1 without folding."""

    host: str
    pid: int
    thread: int
    ip: str
    warning: bool
    message: str
    repeated: int
    damaged: bool


def read(line: str) -> Written | None:
    """Return what a line says, or None where it is not one of NCCL."""
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    repeated = 1
    if "[repeated " in line and (found := _REPEATED.search(line)):
        repeated, line = int(found[1]), line[: found.start()]
    found = _PREFIX.search(line)
    if found is None:
        return None
    pid, thread, before, level, message = found.groups()
    before_host = line[: found.start()]
    host = before_host[len(before_host.rstrip(_HOST)) :]
    if not host:
        return None
    ip = ""
    if "pid=" in line and (ray := _RAY.search(line, 0, found.start())):
        ip = ray[1] or ""
    # Two processes wrote into one line: whose words these are, nobody can tell.
    damaged = _HEAD.search(message) is not None or (before != "" and _HEAD.search(before) is not None)
    return Written(host, int(pid), int(thread), ip, level == "WARN", message.rstrip(), repeated, damaged)
