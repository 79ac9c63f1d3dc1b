"""Before the first step: what carries every group's traffic, compared with what the settings demand. All ranks go on, or none.

Order of calls in a rank: `prepare` (before NCCL's first word, which opens the file), `init_process_group`, the mesh, `check`.
"""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from ..agreement import gathered
from ..errors import TrainingError
from .bandwidth import measure
from .collectives import all_gather, all_reduce
from .config import Expect, TransportConfig
from .evidence import Claim, RankLog, evidence, judge_all
from .records import Communicator, Records
from .report import CommunicatorReport, RankReport, TransportReport

_SUBSYSTEMS = ("INIT", "ENV", "NET")
_ELEMENTS = 1 << 20


def debug_environment(config: TransportConfig, rank: int, current: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that make NCCL write a file for this rank; they must be set before its first communicator.

    What is set already is kept where it says more. %h and %p are NCCL's host and process.
    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """
    asked = [
        name for name in current.get("NCCL_DEBUG_SUBSYS", "").upper().split(",") if name and not name.startswith("^")
    ]
    subsystems = list(dict.fromkeys([*asked, *_SUBSYSTEMS]))
    return {
        "NCCL_DEBUG": "TRACE" if current.get("NCCL_DEBUG", "").upper() == "TRACE" else "INFO",
        "NCCL_DEBUG_SUBSYS": "ALL" if "ALL" in subsystems else ",".join(subsystems),
        "NCCL_DEBUG_FILE": f"{config.log_dir.replace('%', '%%')}/nccl-rank{rank}-%h-%p.log",
    }


def prepare(config: TransportConfig, rank: int) -> RankLog:
    """Set the variables in this process, and return the log that NCCL will write.

    Raises:
        TrainingError: the directory cannot be made.
    """
    directory, pattern = Path(config.log_dir), f"nccl-rank{rank}-*-{os.getpid()}.log"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # A container that is started again has the same process ids: an old file would speak for the new process.
        for old in directory.glob(pattern):
            old.unlink()
    except OSError as error:
        raise TrainingError(
            f"transport.log_dir: {config.log_dir}: {error.strerror}; allowed: a directory that the ranks can write to"
        ) from error
    os.environ.update(debug_environment(config, rank, os.environ))
    return RankLog(directory, pattern)


def checking(run: str) -> dict[str, object]:
    """Return the event that begins a try: in a log of several, NCCL's lines before it are of an earlier one."""
    return {"event": "transport", "status": "checking", "run": run}


def check(
    groups: Mapping[str, dist.ProcessGroup],
    expect: Expect,
    *,
    log: RankLog | None,
    device: torch.device,
    node: str = "",
    control: dist.ProcessGroup | None = None,
    bandwidth: bool = False,
) -> TransportReport:
    """Run a real collective on every group (world, dp_replicate, dp_shard), and judge what NCCL wrote of it.

    `log` is that of `prepare`, None on CPU, where gloo carries the traffic: verdict gloo, never efa. `control` is the gloo group over which
    ranks exchange what they read; the default group where it has gloo. The first group must be the one with all ranks. Every rank calls it.
    With `bandwidth`, every group is measured once its transport is good.

    Raises:
        TrainingError: on all ranks, the same line: what was found, on which node and rank, and NCCL's own words for it.
    """
    claims: dict[str, Claim] = {}
    records = Records()
    taken: set[int] = set()
    for name, group in groups.items():
        if dist.get_world_size(group) == 1:
            continue
        _use(name, group, device)
        if log is not None:
            records = log.read()
            claims[name] = _claim(records, group, taken)
    report = (
        _without_nccl(groups, expect)
        if log is None
        else judge_all(gathered(evidence(log, records, claims, node), control), expect)
    )
    refuse(report)
    return replace(report, bandwidth=measure(groups, device)) if bandwidth else report


def refuse(report: TransportReport) -> None:
    """Raise what is wrong with a report where something is demanded."""
    if report.expect == "any" or report.good:
        return
    hint = f"; {report.findings[0]}" if report.findings else ""
    line = f"; line {report.proof}" if report.proof else ""
    raise TrainingError(
        f"transport.expect: found {report.verdict}: {report.reason}{line}; allowed: {report.expect}{hint or _advice(report)}"
    )


def _advice(report: TransportReport) -> str:
    if report.verdict == "gloo":
        return "; a CPU run proves nothing of it, set transport.expect=any"
    if report.verdict == "local":
        return "; a run on one node has nothing to prove, set transport.expect=any, or give it a second node"
    return "; look at the rank's file on its node, or set transport.expect to what the run shall use"


def _use(name: str, group: dist.ProcessGroup, device: torch.device) -> None:
    """Send real data: NCCL connects with the first collective, and what a small message takes is not what a layer takes."""
    num_ranks = dist.get_world_size(group)
    whole = torch.ones(_ELEMENTS // num_ranks * num_ranks, device=device)
    all_reduce(whole, group)
    if (found := float(whole[0].item())) != num_ranks:
        raise TrainingError(
            f"group {name}: the all-reduce of ones over {num_ranks} ranks gave {found}; the transport corrupts data"
        )
    all_gather(whole, whole[: whole.numel() // num_ranks].clone(), group)
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _claim(records: Records, group: dist.ProcessGroup, taken: set[int]) -> Claim:
    """Return which communicator carried the group: of its rank and size, and not of a group before."""
    ranks = tuple(dist.get_process_group_ranks(group))
    mine = [one for one in records.processes.values() if one.pid == os.getpid()]
    for index, view in enumerate(mine[0].communicators if mine else []):
        if index not in taken and (view.rank, view.num_ranks) == (dist.get_rank(group), len(ranks)) and _talks(view):
            taken.add(index)
            return Claim(ranks=ranks, index=index)
    return Claim(ranks=ranks, index=None)


def _talks(view: Communicator) -> bool:
    """Tell whether a communicator was used: NVLS and the like make no channel that is written down, but end its making."""
    return bool(view.channels) or view.complete


def _without_nccl(groups: Mapping[str, dist.ProcessGroup], expect: Expect) -> TransportReport:
    reason = "gloo on CPU: not NCCL, so it says nothing about the network between GPUs"
    communicators = [
        CommunicatorReport(
            name=name,
            num_ranks=dist.get_world_size(group),
            num_nodes=None,
            verdict="gloo",
            reason=reason,
            proof=None,
            unproven=[],
            ranks=[
                RankReport(rank=number, where=f"rank {rank}", verdict="gloo", reason="not NCCL", proof=None)
                for number, rank in enumerate(dist.get_process_group_ranks(group))
            ],
        )
        for name, group in groups.items()
    ]
    return TransportReport(
        expect=expect,
        verdict="gloo",
        good=expect == "any",
        reason=reason,
        proof=None,
        communicators=communicators,
        versions={"torch": [torch.__version__]},
        interfaces=[],
        findings=[],
        unproven=[],
    )
