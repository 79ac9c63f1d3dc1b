"""The forms of the lines that prove something, over the versions that are in use.

Sources: NCCL's src/init.cc, src/transport/*.cc, src/plugin/net.cc (tags v2.10.3 to v2.29.7) and aws-ofi-nccl's src/nccl_ofi_net.cpp. What
changed: "AWS Libfabric" became "Libfabric"; the provider's line got a count of NICs, then small letters and the fabric; a communicator that
is split off has no commId, its parent, the split's number and its colour tell it.
"""

import re

CHECKING = '"status": "checking"'
"""What the trainer's `transport` event says when a try begins: lines before it are of an earlier try."""

WORTH = re.compile(
    r" via |Using network|NET plugin|Init (?:START|COMPLETE)| nNodes |NET/OFI|NET/Socket|NET/Plugin|NCCL version|"
    r"Connected all|set by environment|NCCL WARN|socketPollConnect|set by env"
)
INIT = re.compile(
    r"comm (0x[0-9a-f]+) rank (\d+) nranks (\d+) cudaDev (\d+)(.*?)- Init (START|COMPLETE)", re.IGNORECASE
)
COMM_ID = re.compile(r"commId (0x[0-9a-f]*[1-9a-f][0-9a-f]*)")
CHILD = re.compile(r"parent (0x[0-9a-f]+)(?: (?:split|child)Count (\d+))? color (-?\d+)")
NODES = re.compile(r"comm (0x[0-9a-f]+) rank (\d+) nRanks (\d+) nNodes (\d+) localRanks (\d+)")
CHANNEL = re.compile(
    r"^(?:Channel|Ring) \d+(?:/\d+)? : (\d+)(?:\[\w+\])? -> (\d+)(?:\[\w+\])?(?: \[(send|receive)\])? via "
    r"(?:NET/([^/]+)/(\d+)(\S*)|(\w+))"
)
NETWORK = re.compile(r"^Using network (?:AWS )?(\S+)|^Assigned NET plugin (?:AWS )?(\S+) to comm")
READY = re.compile(r"^Initialized NET plugin (?:AWS )?(\S+)|^NET/(Socket) ?: Using ")
PROVIDER = re.compile(
    r"NET/OFI Selected provider is ([\w;\-]+)(?:, fabric is ([\w;\-]+))?(?: \(found (\d+) nics?\))?", re.IGNORECASE
)
VERSIONS = {
    "nccl": re.compile(r"NCCL version (\S+)"),
    "aws-ofi-nccl": re.compile(r"NET/OFI (?:Initializing|Using) aws-ofi-nccl (\S+)", re.IGNORECASE),
    "libfabric": re.compile(r"NET/OFI Using Libfabric version (\S+)", re.IGNORECASE),
}
ENVIRONMENT = re.compile(r"(NCCL_\w+) set by environment to ([^\s.]+)")
OLD_NONE = re.compile(r"Plugin name set by env to \S*none")
INTERFACE = re.compile(r"\[\d+\]([\w.\-]+:[0-9a-fA-F.:]+)")
