"""What NCCL's warnings mean here, and what to do: facts that people found, with where they said so."""

import re

from .records import Line, Records

_KNOWN = (
    (
        # https://github.com/gardener/gardener-extension-provider-aws/issues/1832
        r"error 4126|unresponsive receiver|unable to insert remote address",
        "the EFA security group must allow all traffic from and to itself, by its own id",
    ),
    (
        # https://github.com/aws-samples/aws-do-eks/pull/54
        r"pod-id-link0|169\.254\.170\.",
        "NCCL took the interface of EKS Pod Identity; set NCCL_SOCKET_IFNAME=eth0",
    ),
    (
        # https://github.com/aws/aws-ofi-nccl/issues/547
        r"no rdma-read capability",
        "FI_EFA_USE_DEVICE_RDMA=1 aborts on a NIC without rdma-read; do not set it",
    ),
    (
        # https://github.com/aws/deep-learning-containers/issues/2675
        r"only efa provider is supported|no eligible providers|unable to find a protocol that worked",
        "the plugin found no EFA device in this container; request vpc.amazonaws.com/efa and look at the device plugin",
    ),
    (
        # https://github.com/awslabs/awsome-distributed-ai/issues/386
        r"aws-ofi-nccl initialization failed",
        "aws-ofi-nccl did not start: no EFA device, or libraries that do not fit each other in this image",
    ),
    (
        # https://github.com/SemiAnalysisAI/InferenceX/pull/2979
        r"could not find: \S*libnccl-net|no plugin found",
        "NCCL found no network plugin; NCCL_NET_PLUGIN=ofi needs aws-ofi-nccl on the library path",
    ),
)
NOTABLE = re.compile("|".join(form for form, _ in _KNOWN), re.IGNORECASE)
"""What is kept of a log although NCCL does not call it a warning."""
_FORMS = tuple((re.compile(form, re.IGNORECASE), hint) for form, hint in _KNOWN)


def findings(records: Records) -> list[str]:
    """Return what is known about the warnings, each once, with its first line and how many processes have it."""
    seen: dict[str, tuple[Line, set[str]]] = {}
    said = [(process.where, line) for process in records.processes.values() for line in process.warnings]
    for where, line in [*said, *(("", line) for line in records.remarks)]:
        for form, hint in _FORMS:
            if form.search(line.text):
                seen.setdefault(hint, (line, set()))[1].add(where)
    return [
        f"{hint} ({len(found)} process{'es' if len(found) > 1 else ''}; {line})" for hint, (line, found) in seen.items()
    ]
