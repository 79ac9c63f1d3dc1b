"""The record of a run: what ran, where, over what, with which result, and whether that result counts.

Three words: `failed` did not finish; `invalid` finished, but is no evidence for what it claims; `valid` is. The record is JSON beside
the checkpoints, and holds size and SHA-256 of every file that it refers to.
"""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias, cast

from .checkpoint.manifest import File, describe
from .checkpoint.store import Store, open_store
from .errors import StoreError

SCHEMA = "efa-ray-train/record/1"
"""Changes with the meaning or the name of a key; a new key alone does not change it."""
NAME = "record.json"
MOST_SKIPPED = 0.01
"""Part of the steps that may be skipped for their gradients before the loss curve is not that of the settings."""
Status: TypeAlias = Literal["valid", "invalid", "failed"]
Object: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a run counts. A valid one has no reasons."""

    status: Status
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the verdict follows from."""

    failure: str | None
    """What ended the run before its last step, in one line; None when it finished."""
    device: str
    """cuda or cpu."""
    num_nodes: int
    transport_good: bool | None
    """Whether the network is what was asked for; None where it was not checked."""
    transport: str = ""
    """What the check said."""
    steps: int = 0
    trained_steps: int = 0
    """Steps of this try; none where the run was finished already."""
    skipped_steps: int = 0
    loss_before: float | None = None
    """Held-out loss before and after training, None where there was no evaluation."""
    loss_after: float | None = None
    last_checkpoint_step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """What was run. None is what nobody told."""

    git_commit: str | None
    git_dirty: bool | None
    code_sha256: str | None
    image_digest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """Where one rank ran. `instance` and `topology` come from the node: its id, type and place in the network."""

    rank: int
    node: str
    host: str
    device: str
    instance: str | None = None
    topology: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """All that is kept of a run. Times are ISO 8601 in UTC."""

    run: str
    started: str
    ended: str
    verdict: Verdict
    facts: Facts
    code: Code
    settings: Object
    versions: Mapping[str, str]
    ranks: tuple[Rank, ...]
    transport: Object | None
    plan: Object | None
    metrics: Object
    evaluation: Object | None
    checkpoints: tuple[Object, ...]
    files: tuple[File, ...] = ()
    """Files in the record's store that belong to it: manifests of its checkpoints, reports, logs, the export."""
    schema: str = field(default=SCHEMA)

    def encode(self) -> str:
        """Return the record as JSON, with its own SHA-256."""
        body = asdict(self)
        return (
            json.dumps({"schema": body.pop("schema"), "sha256": _hash(body), **body}, indent=1, allow_nan=False) + "\n"
        )


def judge(facts: Facts) -> Verdict:
    """Return the verdict on a run, with every reason. Pure.

    A CPU run is never evidence about a network, so a check that did not happen counts against a CUDA run alone, and there only where
    something crosses nodes.
    """
    if facts.failure is not None:
        return Verdict(status="failed", reasons=(facts.failure,))
    reasons: list[str] = []
    if facts.transport_good is False:
        reasons.append(f"transport: not what was asked for: {facts.transport}")
    elif facts.transport_good is None and facts.device == "cuda" and facts.num_nodes > 1:
        reasons.append("transport: not checked; a run over several nodes proves nothing of its network without")
    if facts.trained_steps == 0:
        reasons.append(
            f"steps: none was trained; the run had {facts.steps} already: take another run name, or more steps"
        )
    if facts.skipped_steps > MOST_SKIPPED * facts.trained_steps:
        reasons.append(
            f"steps: {facts.skipped_steps} of {facts.trained_steps} were skipped; allowed: {MOST_SKIPPED:.0%} of them"
        )
    if (before := facts.loss_before) is not None and (after := facts.loss_after) is not None and not after < before:
        reasons.append(
            f"evaluation: held-out loss {after:.4f} after training; allowed: less than {before:.4f}, before it"
        )
    if facts.loss_before is not None and facts.loss_after is None:
        reasons.append("evaluation: none after training, though there was one before")
    if facts.last_checkpoint_step != facts.steps:
        reasons.append(
            f"checkpoint: the last one is of step {facts.last_checkpoint_step}; allowed: {facts.steps}, the last step"
        )
    return Verdict(status="invalid", reasons=tuple(reasons)) if reasons else Verdict(status="valid")


def code_of(environment: Mapping[str, str]) -> Code:
    """Return what the environment tells of the code: TRAIN_GIT_COMMIT, TRAIN_GIT_DIRTY (0 or 1), TRAIN_CODE_SHA256, TRAIN_IMAGE_DIGEST."""
    dirty = environment.get("TRAIN_GIT_DIRTY")
    return Code(
        git_commit=environment.get("TRAIN_GIT_COMMIT"),
        git_dirty=None if dirty is None else dirty != "0",
        code_sha256=environment.get("TRAIN_CODE_SHA256"),
        image_digest=environment.get("TRAIN_IMAGE_DIGEST"),
    )


def versions_loaded(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the versions of Python, of the libraries that this process has loaded, and of what is `given` (libfabric, NCCL's plugin)."""
    found = {"python": sys.version.split()[0]}
    for name in ("ray", "torch", "transformers", "pyarrow", "boto3", "numpy"):
        if name in sys.modules:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                found[name] = str(getattr(sys.modules[name], "__version__", "unknown"))
    torch = cast(Any, sys.modules.get("torch"))
    if torch is not None and torch.cuda.is_available():
        found["cuda"] = str(torch.version.cuda)
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return {**found, **(given or {})}


def write(record: Record, store: Store) -> str:
    """Write a record into a store and return where it is. Raises StoreError."""
    with TemporaryDirectory(prefix="train-record-") as scratch:
        path = Path(scratch) / NAME
        path.write_text(record.encode(), encoding="utf-8")
        store.put(path, NAME)
    return f"{store.uri}/{NAME}"


def reference(store: Store, names: Sequence[str]) -> tuple[File, ...]:
    """Return size and SHA-256 of files in a store, to be referred to. Raises StoreError."""
    with TemporaryDirectory(prefix="train-record-") as scratch:
        found: list[File] = []
        for name in names:
            path = Path(scratch) / "file"
            store.get(name, path)
            found.append(describe(path, name))
        return tuple(found)


def read(uri: str) -> dict[str, Any]:
    """Return a record as it is, without its schema. Raises StoreError when there is none of this schema."""
    place, _, name = uri.rpartition("/")
    with TemporaryDirectory(prefix="train-record-") as scratch:
        path = Path(scratch) / NAME
        open_store(place).get(name, path)
        return _decode(path.read_text(encoding="utf-8", errors="replace"), uri)


def verify(uri: str) -> list[str]:
    """Return what is not as a record says, one line each; nothing when all is. `uri` is the record's.

    Raises:
        StoreError: the store cannot be read, or there is no record of this schema.
    """
    place, _, _ = uri.rpartition("/")
    store, body = open_store(place), read(uri)
    problems: list[str] = []
    if body.pop("sha256", None) != _hash(body):
        problems.append(f"{uri}: is not as it was written: its own SHA-256 differs")
    sizes = store.sizes()
    for entry in cast("list[dict[str, Any]]", body.get("files", [])):
        file = File(**entry)
        if file.name not in sizes:
            problems.append(f"{place}/{file.name}: is not there")
        elif sizes[file.name] != file.bytes:
            problems.append(f"{place}/{file.name}: found {sizes[file.name]} bytes; the record says {file.bytes}")
        elif reference(store, [file.name]) != (file,):
            problems.append(f"{place}/{file.name}: is not as it was: its SHA-256 differs from the record's")
    return problems


def _decode(text: str, uri: str) -> dict[str, Any]:
    try:
        body = json.loads(text)
        schema = body.pop("schema")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise StoreError(f"record {uri}: is none: {error!r}") from error
    if schema != SCHEMA:
        raise StoreError(f"record {uri}: found schema {schema!r}; this program reads {SCHEMA}")
    return cast(dict[str, Any], body)


def _hash(body: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
