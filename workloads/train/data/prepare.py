"""From a source to packed sequences, once a node: one rank packs, the others wait for it."""

import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

from ..errors import TrainingError, UsageError
from .config import BUILTIN, SYNTHETIC, DataConfig
from .documents import Documents, Recipe
from .packed import MANIFEST, Manifest, PackedSequences, Writer, read_manifest
from .packing import OPEN_SEQUENCES, VERSION
from .parallel import tokenised
from .rows import Unit, units_of
from .sequences import Sequences
from .source import list_files
from .synthetic import HELD_OUT, TRAINED, MarkovSource
from .tokenizer import BYTES, Words, load_words

POLL_SECONDS = 0.2
MOST_PROBLEMS = 20
"""Bad rows that are named of a source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """The data of a run."""

    train: Sequences
    held_out: Sequences | None
    """None where the setting is 0."""
    words: Words | None
    """None: synthetic tokens have no text."""
    summary: dict[str, object]
    """What was packed and by whom, for the run's record."""


def open_data(config: DataConfig, *, vocab_size: int, model_tokenizer: str | None = None) -> Data:
    """Prepare the data of a run where that was not done before, and open it. Every rank calls it; it needs no process group.

    Args:
        config: the section `data`.
        vocab_size: of the model.
        model_tokenizer: folder or id of the model's own tokenizer; None: it has none.

    Raises:
        UsageError: with all that is wrong with the source, one line each.
        StoreError: the source cannot be read.
        TrainingError: the cache cannot be used, or the rank that packs took too long.
    """
    if config.source == SYNTHETIC:
        return _synthetic(config, vocab_size)
    started = time.monotonic()
    words = load_words(config.tokenizer or model_tokenizer or BYTES)
    if words.vocab_size > vocab_size:
        raise UsageError(
            f"data.tokenizer: found {words.name} with {words.vocab_size} tokens; allowed: {vocab_size} at most, the model's vocabulary; "
            "set the tokenizer of the model"
        )
    recipe = Recipe(
        format=config.format,
        text_column=config.text_column,
        words=words,
        held_out=config.held_out,
        vocab_size=vocab_size,
    )
    files = [] if config.source == BUILTIN else list_files(config.source)
    key = _key(config, recipe, [(file.uri, file.bytes, file.tag) for file in files])
    cache = Path(config.cache_path or f"{gettempdir()}/train-data")
    folder = cache / key
    prepared_by = "an earlier run"
    with _only_one(cache, key, config.preparation_timeout):
        if not (folder / MANIFEST).exists():
            units = [Unit(None)] if config.source == BUILTIN else units_of(files, recipe.columns)
            prepared_by = _prepare(config, units, recipe, folder)
    manifest = read_manifest(folder)
    return Data(
        train=PackedSequences(folder, "train"),
        held_out=PackedSequences(folder, "held_out") if config.held_out else None,
        words=words,
        summary={
            **manifest.model_dump(),
            "files": len(files),
            "prepared_by": prepared_by,
            "seconds": round(time.monotonic() - started, 3),
        },
    )


def _synthetic(config: DataConfig, vocab_size: int) -> Data:
    train = MarkovSource(config.sequence_length, vocab_size, seed=config.seed)
    held_out = MarkovSource(config.sequence_length, vocab_size, seed=config.seed, first=TRAINED, num_sequences=HELD_OUT)
    summary: dict[str, object] = {"source": SYNTHETIC, "sequence_length": config.sequence_length, "sequences": TRAINED}
    return Data(train=train, held_out=held_out if config.held_out else None, words=None, summary=summary)


def _key(config: DataConfig, recipe: Recipe, listing: Sequence[tuple[str, int, str]]) -> str:
    """Return the sha256 of everything that decides what is packed."""
    values = {
        "packing": [VERSION, OPEN_SEQUENCES],
        "files": listing,
        # What Python ships is what its build says, and finding that out takes seconds.
        "builtin": sys.version if config.source == BUILTIN else "",
        "tokenizer": recipe.words.fingerprint,
        "sequence_length": config.sequence_length,
        "format": [config.format, config.text_column],
        "held_out": config.held_out,
        # Tokens that were made elsewhere are held against the model's vocabulary when they are packed.
        "vocab_size": recipe.vocab_size if config.format == "tokens" else 0,
    }
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _prepare(config: DataConfig, units: Sequence[Unit], recipe: Recipe, folder: Path) -> str:
    """Pack all units into a folder, which is there whole or not at all. Return who tokenised."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    try:
        # Of a process that was killed: the lock says that nobody works in there.
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        who, documents = tokenised(units, recipe)
        with (
            Writer(unfinished, "train", config.sequence_length) as train,
            Writer(unfinished, "held_out", config.sequence_length) as held_out,
        ):
            problems = _pack(documents, train, held_out)
            if problems:
                raise UsageError("\n".join(problems))
            manifest = Manifest(
                source=config.source,
                tokenizer=recipe.words.name,
                sequence_length=config.sequence_length,
                train=train.done(),
                held_out=held_out.done(),
            )
        _check(config, manifest)
        (unfinished / MANIFEST).write_text(manifest.model_dump_json(indent=1))
        unfinished.replace(folder)
    except OSError as error:
        raise TrainingError(f"data cache {folder.parent}: cannot write it: {error}; set data.cache_path") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return who


def _pack(documents: Iterator[Documents], train: Writer, held_out: Writer) -> list[str]:
    """Give documents to the splits, in their order; return the bad rows, of all units as far as they are not too many."""
    problems: list[str] = []
    for found in documents:
        problems.extend(found.problems)
        if len(problems) >= MOST_PROBLEMS:
            return [*problems[:MOST_PROBLEMS], f"data: more than {MOST_PROBLEMS} bad rows; the rest was not read"]
        if problems:
            continue
        at = 0
        for length, evaluated in zip(found.lengths.tolist(), found.held_out.tolist(), strict=True):
            to = held_out if evaluated else train
            to.add(found.tokens[at : at + length], found.counts[at : at + length])
            at += length
    return problems


def _check(config: DataConfig, manifest: Manifest) -> None:
    documents = manifest.train.documents + manifest.held_out.documents
    if not documents:
        raise UsageError(f"data.source: found no rows in {config.source}; allowed: at least one; check the path")
    for name in ("train", *(["held_out"] if config.held_out else [])):
        if not manifest.split(name).sequences:
            raise UsageError(
                f"data.held_out: found {config.held_out} of {documents} rows, which leaves none for {name}; allowed: a share that leaves "
                "some on both sides, or 0; change it or give more rows"
            )


@contextmanager
def _only_one(cache: Path, key: str, timeout: float) -> Generator[None]:
    """Hold the lock of this node for one source; it ends with the process that holds it. What failed for one, fails for all who waited."""
    began = time.time_ns()
    failure = cache / f"{key}.failed"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(cache / f"{key}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise TrainingError(f"data cache {cache}: cannot use it: {error}; set data.cache_path") from error
    try:
        _lock(descriptor, cache, timeout)
        # The same rows would be refused again, once for every rank.
        if failure.exists() and failure.stat().st_mtime_ns >= began:
            raise UsageError(failure.read_text())
        failure.unlink(missing_ok=True)
        try:
            yield
        except UsageError as error:
            failure.write_text(str(error))
            raise
    finally:
        os.close(descriptor)


def _lock(descriptor: int, cache: Path, timeout: float) -> None:
    end = time.monotonic() + timeout
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > end:
                raise TrainingError(
                    f"data cache {cache}: another process of this node packs for more than {timeout:g} s; set data.preparation_timeout, or "
                    "end that process"
                ) from error
            time.sleep(POLL_SECONDS)
