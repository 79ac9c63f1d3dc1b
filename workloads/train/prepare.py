"""All that a run needs before its first step: files, network, plan, model, data, and the newest checkpoint."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from . import attention, hub
from .agreement import first_rank, gathered
from .anomalies import Anomalies
from .checkpoint.checkpoints import Checkpoints
from .checkpoint.export import CONFIG, model_files
from .checkpoint.folders import survey
from .checkpoint.outcome import Resumed
from .checkpoint.resume import resume
from .checkpoint.store import Store, open_store
from .config import Config
from .data.prepare import Data, open_data
from .data.state import DataState, Loader
from .device import CUDA
from .errors import UsageError
from .evaluate import Evaluator, read_questions
from .events import Reporter
from .faults import Faults, from_environment
from .model import CausalLM, materialise, read_config, skeleton
from .model_shape import BUILT_IN, ModelShape, shape_of
from .network import prove
from .optimizer import make_optimizer
from .parallel import Parallel, make_mesh, parallelize
from .plan.choose import choose
from .plan.machine import Machine, Work
from .plan.plan import Plan
from .plan.probe import probe
from .record import versions_loaded
from .transport.evidence import RankLog
from .transport.watch import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A run that stands before its next step."""

    config: Config
    reporter: Reporter
    device: torch.device
    shape: ModelShape
    plan: Plan
    parallel: Parallel
    optimizer: torch.optim.Optimizer
    data: Data
    loader: Loader
    evaluator: Evaluator | None
    """None where nothing is held out."""
    checkpoints: Checkpoints
    watch: Watch | None
    files: Mapping[str, Path | bytes]
    """What describes model and tokenizer, by name: paths, or contents."""
    anomalies: Anomalies
    faults: Faults
    resumed: Resumed | None

    @property
    def module(self) -> CausalLM:
        """Return the sharded model."""
        return self.parallel.module


def prepare(
    config: Config, reporter: Reporter, *, node: str, device: torch.device, log: RankLog | None = None
) -> Prepared:
    """Bring a run before its next step; all ranks call it in their process group. `log` is what NCCL writes, on CUDA.

    Raises:
        UsageError: something of the configuration does not fit what is there.
        StoreError: model, data or checkpoints cannot be read.
        TrainingError: the network is not what the run demands, or no plan fits.
    """
    speaks, ranks = dist.get_rank() == 0, _ranks(node)
    _refuse_another_world(config, ranks)
    _repeatable(config, device)
    described, source = _model(config)
    shape, store = shape_of(described, "model.name"), open_store(config.run.storage_uri)
    network = prove(config, reporter, node=node, device=device, log=log)
    machine = _measure(config, device, node, network.mesh)
    plan = _plan(config, shape, machine, store)
    module = skeleton(described, attention.choose(device.type), "model.name")
    module.chunk_rows = config.model.chunk_rows
    parallel = parallelize(
        module, plan, make_mesh(plan, device.type, network.mesh), precision=config.precision, compile=config.compile
    )
    materialise(module, device, weights=source, seed=config.train.seed)
    optimizer = make_optimizer(module, config.optimizer)
    data = open_data(config.data, vocab_size=shape.vocab_size, model_tokenizer=_tokenizer(source))
    refuse_other_data(data, node)
    loader = Loader(
        data.train,
        seed=config.data.seed,
        rank=dist.get_rank(),
        world_size=dist.get_world_size(),
        micro_batch=plan.micro_batch,
        accumulation=plan.accumulation,
        pin=device.type == CUDA,
    )
    evaluator = _evaluator(config, data, plan, device)
    faults = Faults(from_environment(config.fault), rank=dist.get_rank(), world_size=dist.get_world_size())
    files = model_files(source) if source else {CONFIG: json.dumps(dict(described)).encode()}
    checkpoints = Checkpoints(
        store,
        config.checkpoint,
        identity={"tokenizer": data.words.fingerprint} if data.words else {},
        files=files,
        tell=reporter.emit,
        reach=faults.reach,
    )
    if speaks:
        reporter.emit(_event(config, shape, plan, parallel, data, loader, ranks, device))
    resumed, refused = resume(checkpoints, module, optimizer)
    anomalies = Anomalies(config.anomaly)
    if resumed is not None:
        loader.resume(DataState(**cast(Mapping[str, Any], resumed.extra["data"])))
        anomalies.resume(cast(Mapping[str, object], resumed.extra["anomalies"]))
    if speaks and (resumed or refused):
        reporter.emit(resumed.event() if resumed else {"event": "resume", "step": 0, "uri": None, "refused": refused})
    checkpoints.prepare(module, optimizer)
    return Prepared(
        config=config,
        reporter=reporter,
        device=device,
        shape=shape,
        plan=plan,
        parallel=parallel,
        optimizer=optimizer,
        data=data,
        loader=loader,
        evaluator=evaluator,
        checkpoints=checkpoints,
        files=files,
        watch=network.watch,
        anomalies=anomalies,
        faults=faults,
        resumed=resumed,
    )


def refuse_other_data(data: Data, node: str) -> None:
    """Refuse nodes with different data: each packs a copy of its own, and files may change meanwhile. All ranks call it.

    Raises:
        UsageError: on all ranks.
    """
    found = gathered((data.train.fingerprint, node))
    others = [one for one in found if one[0] != found[0][0]]
    if others:
        raise UsageError(
            f"data.source: found {found[0][0][:12]} on node {found[0][1]} and {others[0][0][:12]} on node {others[0][1]}; "
            "allowed: the same data everywhere; leave the files alone while a run starts, and start it again"
        )


def _evaluator(config: Config, data: Data, plan: Plan, device: torch.device) -> Evaluator | None:
    asked = config.evaluate.questions
    if asked is not None and (data.words is None or data.held_out is None):
        raise UsageError(
            f"evaluate.questions: found {asked}, but the data have {'nothing held out' if data.words else 'no text'}; "
            "allowed: questions where data.source is text and data.held_out above 0; leave it out"
        )
    if data.held_out is None:
        return None
    return Evaluator(
        held_out=data.held_out,
        questions=read_questions(asked, data.words, config.data.sequence_length) if asked and data.words else (),
        words=data.words,
        micro_batch=plan.micro_batch,
        rank=dist.get_rank(),
        world_size=dist.get_world_size(),
        device=device,
    )


def _ranks(node: str) -> list[dict[str, object]]:
    """Return where each rank runs, on all ranks."""
    mine: dict[str, object] = {"rank": dist.get_rank(), "node": node, "host": socket.gethostname(), "pid": os.getpid()}
    return gathered(mine)


def _refuse_another_world(config: Config, ranks: list[dict[str, object]]) -> None:
    if config.run.world_size != len(ranks):
        raise UsageError(
            f"run.num_nodes: found {config.run.num_nodes} nodes with {config.run.ranks} ranks each, but {len(ranks)} ranks are there; "
            "allowed: as many as there are; correct run.num_nodes or run.ranks_per_node"
        )


def _repeatable(config: Config, device: torch.device) -> None:
    torch.manual_seed(config.train.seed + dist.get_rank())
    if config.train.deterministic:
        # Read by cuBLAS when it is first used.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    if device.type == CUDA:
        torch.cuda.set_device(device)


def _model(config: Config) -> tuple[Mapping[str, object], Path | None]:
    """Return a model's configuration, and where its weights are; None: they are random."""
    if (built_in := BUILT_IN.get(config.model.name)) is not None:
        return built_in, None
    found = hub.fetch(
        config.model.name,
        config.model.revision,
        run=config.run.name,
        patterns=hub.EVERYTHING if config.model.weights == "pretrained" else hub.WITHOUT_WEIGHTS,
    )
    versions = gathered(found.version)
    if len(set(versions)) > 1:
        raise UsageError(
            f"model.revision: found {config.model.revision}, which is {versions[0]} on the first node and "
            f"{next(one for one in versions if one != versions[0])} on another; allowed: one version; set model.revision to a commit"
        )
    return read_config(found.folder, "model.name"), found.folder if config.model.weights == "pretrained" else None


def _tokenizer(source: Path | None) -> str | None:
    has_one = source is not None and any((source / name).exists() for name in ("tokenizer.json", "tokenizer.model"))
    return str(source) if has_one else None


def _measure(config: Config, device: torch.device, node: str, mesh: DeviceMesh | None) -> Machine:
    world = dist.group.WORLD if dist.get_world_size() > 1 else None
    inside = mesh.get_group("dp_shard") if mesh else world if config.run.num_nodes == 1 else None
    across = mesh.get_group("dp_replicate") if mesh else world if config.run.num_nodes > 1 else None
    return probe(device, node=node, in_node=inside, cross_node=across)


def _plan(config: Config, shape: ModelShape, machine: Machine, store: Store) -> Plan:
    """Return the plan of this run's newest checkpoint where it still holds, else the best one; decided by rank 0."""
    work = Work(
        shape=shape,
        sequence_length=config.data.sequence_length,
        global_batch_tokens=config.global_batch_tokens,
        compiled=config.compile,
        loss_chunk=config.model.chunk_rows,
        all_reduce_gradient_bytes=2 if config.precision.replica_reduce == "bf16" else 4,
    )
    stored = first_rank(lambda: _stored(store))
    return first_rank(lambda: choose(work, machine, fixed=config.plan, stored=stored))


def _stored(store: Store) -> Plan | None:
    complete = survey(store).complete
    return Plan.from_json(complete[0].extra["plan"]) if complete and "plan" in complete[0].extra else None


def _event(
    config: Config,
    shape: ModelShape,
    plan: Plan,
    parallel: Parallel,
    data: Data,
    loader: Loader,
    ranks: list[dict[str, object]],
    device: torch.device,
) -> dict[str, object]:
    return {
        "event": "plan",
        "run": config.run.name,
        "model": config.model.name,
        "parameters": sum(one.numel() for one in parallel.module.parameters()),
        "shape": asdict(shape),
        "plan": plan.to_json(),
        "device": device.type,
        "backend": dist.get_backend(),
        "attention": parallel.module.kind,
        "compile": config.compile,
        "features": parallel.features,
        "versions": versions_loaded(),
        "steps": config.train.steps,
        "tokens_per_step": config.global_batch_tokens,
        "data": data.summary,
        "notes": loader.notes,
        "checkpoints": config.run.storage_uri,
        "checkpoint_every": config.checkpoint.every,
        "configuration": config.model_dump(mode="json"),
        "ranks": ranks,
    }
