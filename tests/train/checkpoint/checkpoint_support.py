"""A small sharded model with a tied weight, uneven shards and empty ones; what one rank does in the tests of checkpoints."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from workloads.train.checkpoint.checkpoints import Checkpoints
from workloads.train.checkpoint.config import CheckpointConfig
from workloads.train.checkpoint.outcome import Resumed
from workloads.train.checkpoint.state import State, state_of
from workloads.train.checkpoint.store import DirectoryStore, Store
from workloads.train.events import Event

WORDS, WIDTH = 31, 10


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + torch.tanh(self.linear(hidden))


class Tied(torch.nn.Module):
    """Rows and columns that two and four ranks cannot share evenly, a bias of fewer entries than ranks, one weight under two names."""

    def __init__(self, words: int = WORDS) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(words, WIDTH)
        self.blocks = torch.nn.ModuleList([Block() for _ in range(2)])
        self.narrow = torch.nn.Linear(WIDTH, 3)
        self.head = torch.nn.Linear(WIDTH, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden).square().mean() + self.narrow(hidden).square().mean()


@dataclass
class Trained:
    module: torch.nn.Module
    optimizer: torch.optim.Optimizer

    def step(self, number: int) -> float:
        """Train on what the number says, the same on every rank; return the loss."""
        tokens = torch.randint(WORDS, (2, 8), generator=torch.Generator().manual_seed(number))
        loss: torch.Tensor = self.module(tokens)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(loss.detach())

    @property
    def state(self) -> State:
        return state_of(self.module, self.optimizer)

    def whole(self) -> dict[str, torch.Tensor]:
        """Return every tensor of model and optimizer, unsharded."""
        state = self.state
        flat: dict[str, Any] = dict(state.model)
        for name, entries in cast(dict[str, dict[str, Any]], state.optimizer["state"]).items():
            flat |= {f"{name}.{key}": value for key, value in entries.items()}
        return {name: (one.full_tensor() if isinstance(one, DTensor) else one).clone() for name, one in flat.items()}


def build(mesh: Sequence[int] = (1,), *, words: int = WORDS, seed: int = 5, optimizer: str = "AdamW") -> Trained:
    """Return a model that is sharded over a mesh; (2, 2) is two replicas of two shards."""
    torch.manual_seed(seed)
    module = Tied(words)
    made = init_device_mesh("cpu", tuple(mesh), mesh_dim_names=("dp_replicate", "dp_shard")[-len(mesh) :])
    for block in module.blocks:
        fully_shard(block, mesh=made)
    fully_shard(module, mesh=made)
    if optimizer == "SGD":
        return Trained(module, torch.optim.SGD(module.parameters(), lr=1e-2))
    return Trained(module, torch.optim.AdamW(module.parameters(), lr=1e-2))


@dataclass
class Heard:
    events: list[Event] = field(default_factory=list[Event])

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    @property
    def statuses(self) -> list[tuple[object, object]]:
        return [(event["step"], event["status"]) for event in self.events]


@contextmanager
def checkpoints_at(store: Store, **changes: Any) -> Generator[Checkpoints]:
    """Give the checkpoints of a store; settings and arguments by name."""
    arguments = {name: changes.pop(name) for name in ("identity", "files", "tell", "reach") if name in changes}
    made = Checkpoints(store, CheckpointConfig(**changes), **arguments)
    try:
        yield made
    finally:
        made.close()


def save(checkpoints: Checkpoints, trained: Trained, step: int, extra: Mapping[str, object] | None = None) -> None:
    """Save a step and wait until it counts."""
    checkpoints.save(step, trained.module, trained.optimizer, extra or {"position": 8 * step})
    checkpoints.wait()


def resume(checkpoints: Checkpoints, trained: Trained) -> Resumed | None:
    return checkpoints.resume(trained.module, trained.optimizer)


def steps(store: Store) -> list[str]:
    return sorted({name.partition("/")[0] for name in store.sizes()})


def fill_disk_at(store: DirectoryStore, name: str) -> None:
    """Let writing one file end with ENOSPC, by the system's own hand."""
    path = Path(store.uri) / f"{name}.unfinished"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("/dev/full")


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


class CountingStore(DirectoryStore):
    """A store of several processes that remembers what was read from it."""

    def __init__(self, uri: str, notes: Path) -> None:
        super().__init__(uri)
        self._notes = notes

    def get(self, name: str, target: Path) -> None:
        with self._notes.open("a") as notes:
            notes.write(f"{name}\n")
        super().get(name, target)

    @property
    def read(self) -> list[str]:
        return self._notes.read_text().split() if self._notes.exists() else []


class RefusingStore(DirectoryStore):
    """A store that refuses what its tests say, as long as they say so."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.refused: tuple[str, ...] = ()
        self.actions: tuple[str, ...] = ("put",)

    def _may(self, action: str, name: str) -> None:
        from workloads.train.errors import StoreError

        if action in self.actions and any(part in name for part in self.refused):
            raise StoreError(f"checkpoint store {self.uri}: cannot {action} {name}: refused")

    def put(self, source: Path, name: str) -> None:
        self._may("put", name)
        super().put(source, name)

    def get(self, name: str, target: Path) -> None:
        self._may("get", name)
        super().get(name, target)

    def delete(self, names: Iterable[str]) -> None:
        names = list(names)
        for name in names:
            self._may("delete", name)
        super().delete(names)


@contextmanager
def alone(meeting: Path) -> Generator[None]:
    """Be the only rank of a gloo group, for as long as the block runs."""
    torch.set_num_threads(1)
    store = dist.FileStore(str(meeting), 1)  # pyright: ignore[reportPrivateImportUsage] -- a documented name
    dist.init_process_group("gloo", store=store, rank=0, world_size=1, timeout=timedelta(seconds=120))
    try:
        yield
    finally:
        dist.destroy_process_group()


@pytest.fixture(autouse=True)
def rank(tmp_path: Path) -> Iterator[None]:
    with alone(tmp_path / "meeting"):
        yield


@pytest.fixture
def trained() -> Trained:
    made = build()
    made.step(1)
    return made


@pytest.fixture
def store(tmp_path: Path) -> RefusingStore:
    return RefusingStore(str(tmp_path / "store"))
