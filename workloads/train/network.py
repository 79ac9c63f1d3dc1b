"""The communicators of a run, each proven to take the way that is asked for before anything is trained over it."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

from dataclasses import dataclass
from typing import cast

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from .config import Config
from .device import CUDA
from .events import Reporter
from .transport.evidence import RankLog
from .transport.gate import check, checking
from .transport.watch import Watch


@dataclass(frozen=True, slots=True)
class Network:
    """What connects the ranks."""

    mesh: DeviceMesh | None
    """Nodes and their ranks, (dp_replicate, dp_shard); None where there is one node, or one rank alone on each."""
    watch: Watch | None
    """Judges communicators that come later; None where nothing is demanded of them."""


def prove(config: Config, reporter: Reporter, *, node: str, device: torch.device, log: RankLog | None) -> Network:
    """Use every group once, judge what carried it, and say so; all ranks call it. `log` is what NCCL writes, on CUDA.

    Raises:
        TrainingError: on all ranks, naming node, rank and proof, when the traffic does not go as the run demands.
    """
    speaks = dist.get_rank() == 0
    mesh = None
    if config.run.num_nodes > 1 and config.run.ranks > 1:
        mesh = init_device_mesh(
            device.type, (config.run.num_nodes, config.run.ranks), mesh_dim_names=("dp_replicate", "dp_shard")
        )
    groups: dict[str, dist.ProcessGroup] = {"world": cast(dist.ProcessGroup, dist.group.WORLD)}
    if mesh is not None:
        groups |= {name: mesh.get_group(name) for name in cast(tuple[str, ...], mesh.mesh_dim_names)}
    if speaks:
        reporter.emit(checking(config.run.name))
    # A run on CPUs is a rehearsal: what it shall train over is not there, and its report says gloo.
    expect = config.transport.expect if device.type == CUDA else "any"
    report = check(groups, expect, log=log, device=device, node=node, bandwidth=config.transport.measure)
    if speaks:
        reporter.emit({"event": "transport", **report.to_json()})
    return Network(mesh, Watch(log, expect, node=node) if log is not None and expect != "any" else None)
