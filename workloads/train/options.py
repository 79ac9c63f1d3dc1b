"""The arguments of a run, checked all at once."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from .errors import UsageError

MODEL = "tiny-qwen2"
"""The one model that this version trains."""
EFA, TCP = "efa", "tcp"
CPU, CUDA = "cpu", "cuda"
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_STORAGE = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?|/.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One run. Its checkpoints lie below `storage_path`/`run_name`, where the next try finds them."""

    model: str
    storage_path: str
    run_name: str
    num_nodes: int
    gpus_per_node: int
    ranks_per_node: int
    network: str
    device: str
    steps: int
    checkpoint_every: int
    max_restarts: int
    """How often a lost process is replaced."""
    fail_at_step: int | None
    """Fault point: the last rank raises in this step."""

    @property
    def world_size(self) -> int:
        """Return the number of ranks."""
        return self.num_nodes * self.ranks_per_node

    @property
    def storage_uri(self) -> str:
        """Return where this run's checkpoints lie."""
        return f"{self.storage_path.rstrip('/')}/{self.run_name}"


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line.

    Raises:
        UsageError: with every wrong argument, one a line.
    """
    values, unknown = _parser().parse_known_args(arguments)
    read = _Reader(values)
    gpus = read.number("--gpus-per-node")
    ranks = read.number("--ranks-per-node", default=gpus)
    options = Options(
        model=read.choice("--model", MODEL, why="training of other models is not part of this version"),
        storage_path=read.matching("--storage-path", _STORAGE, "s3://BUCKET/PREFIX or an absolute path"),
        run_name=read.matching("--run-name", _RUN_NAME, "letters, digits, dots, dashes and underscores, 128 at most"),
        num_nodes=read.number("--num-nodes"),
        gpus_per_node=gpus,
        ranks_per_node=ranks,
        network=read.choice("--network", EFA, TCP),
        device=read.choice("--device", CPU, CUDA),
        steps=read.number("--steps"),
        checkpoint_every=read.number("--checkpoint-every"),
        max_restarts=read.number("--max-restarts", least=0),
        fail_at_step=read.number("--fail-at-step") if values.fail_at_step is not None else None,
    )
    if gpus and ranks and gpus % ranks:
        read.refuse("--ranks-per-node", str(ranks), f"a divisor of --gpus-per-node, {gpus}")
    elif options.device == CUDA and ranks != gpus:
        read.refuse(
            "--ranks-per-node", str(ranks), f"{gpus}, as --gpus-per-node: with --device=cuda a rank drives one GPU"
        )
    problems = [*read.problems, *(f"{word}: unknown argument; see --help" for word in unknown)]
    if problems:
        raise UsageError("\n".join(problems))
    return options


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see --help")


def _parser() -> argparse.ArgumentParser:
    """Return a parser that takes every value as it is: what is wrong is said later, all together."""
    parser = _Parser(prog="train", description="Train a small Qwen2 model with Ray Train.", allow_abbrev=False)
    parser.add_argument("--model", help=f"model; this version trains {MODEL} alone")
    parser.add_argument(
        "--storage-path", help="s3://BUCKET/PREFIX or /fsx/PATH; checkpoints go below it and the run's name"
    )
    parser.add_argument("--run-name", help="name of the run; a run of the same name goes on from its newest checkpoint")
    parser.add_argument("--num-nodes", help="GPU nodes, each one Ray worker")
    parser.add_argument("--gpus-per-node", help="GPUs of each Ray worker")
    parser.add_argument("--ranks-per-node", help="training processes on each node; default: one for each GPU")
    parser.add_argument("--network", help="efa or tcp: what the run was set up for; this version does not check it")
    parser.add_argument(
        "--device", default=CUDA, help="cuda, or cpu, which still takes the nodes' GPUs out of Ray's count"
    )
    parser.add_argument("--steps", default="100", help="optimizer steps of the whole run")
    parser.add_argument("--checkpoint-every", default="10", help="steps between two checkpoints")
    parser.add_argument("--max-restarts", default="3", help="how often a lost process is replaced before the run fails")
    parser.add_argument("--fail-at-step", help="fault point for drills: the last rank raises in this step")
    return parser


class _Reader:
    """Take values out of a namespace and remember what was wrong; a wrong one reads as empty or 0."""

    def __init__(self, values: argparse.Namespace) -> None:
        self._values: dict[str, str | None] = vars(values)
        self.problems: list[str] = []

    def refuse(self, name: str, found: str, allowed: str) -> None:
        self.problems.append(f"{name}: found {found}; allowed: {allowed}")

    def _raw(self, name: str) -> str | None:
        return self._values[name.removeprefix("--").replace("-", "_")]

    def number(self, name: str, *, least: int = 1, default: int | None = None) -> int:
        raw = self._raw(name)
        if raw is None and default is not None:
            return default
        if raw is not None and raw.isascii() and raw.isdigit() and int(raw) >= least:
            return int(raw)
        self.refuse(name, _shown(raw), f"a whole number of at least {least}")
        return 0

    def choice(self, name: str, *allowed: str, why: str = "") -> str:
        raw = self._raw(name)
        if raw in allowed:
            return raw
        self.refuse(name, _shown(raw), " or ".join(allowed) + (f"; {why}" if why else ""))
        return ""

    def matching(self, name: str, pattern: re.Pattern[str], allowed: str) -> str:
        raw = self._raw(name)
        if raw is not None and pattern.fullmatch(raw):
            return raw
        self.refuse(name, _shown(raw), allowed)
        return ""


def _shown(raw: str | None) -> str:
    return "nothing" if raw is None else repr(raw)
