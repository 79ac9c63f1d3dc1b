"""Rows to documents: tokens, and which of them are predicted."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import cast

import numpy as np
import numpy.typing as npt

from .chat import Chat, conversation
from .config import Format
from .rows import Bad, Row, Unit, read, where
from .text import text_in
from .tokenizer import Words

AT_ONCE = 256
"""Rows that the tokenizer gets at once, for its own threads."""
MOST_PROBLEMS = 10
"""Bad rows that are named of a unit; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How rows become documents."""

    format: Format
    text_column: str
    words: Words
    held_out: float
    vocab_size: int
    """Of the model: numbers of tokens must be below."""

    @property
    def columns(self) -> list[list[str]]:
        """Return the columns that a row needs; any of the alternatives will do."""
        if self.format == "instruction":
            return [["messages"], ["prompt", "response"]]
        return [["input_ids"]] if self.format == "tokens" else [[self.text_column]]


@dataclass(slots=True)
class Documents:
    """The documents of a unit, one after the other."""

    tokens: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    counts: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Whether a token is predicted; never the first of a document."""
    lengths: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    held_out: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    problems: list[str] = field(default_factory=list[str])
    """One line for each bad row, MOST_PROBLEMS at most, with the number of others."""


@dataclass(frozen=True, slots=True)
class _Document:
    tokens: npt.NDArray[np.int32]
    counts: npt.NDArray[np.bool_]
    content: bytes
    """What decides whether the row is held out."""


def documents_of(unit: Unit, recipe: Recipe) -> Documents:
    """Read and tokenise a unit. The same unit and recipe give the same documents in any process.

    Raises:
        StoreError, UsageError: the file cannot be read. What is wrong with rows is in `problems`.
    """
    found: list[_Document] = []
    bad: list[tuple[int, str]] = []
    rows = read(unit, recipe.columns)
    while some := list(islice(rows, AT_ONCE)):
        for number, document in _made(some, recipe):
            if isinstance(document, Bad):
                bad.append((number, document.why))
            else:
                found.append(document)
    problems = [f"{where(unit, number)}: {why}" for number, why in sorted(bad)[:MOST_PROBLEMS]]
    if len(bad) > MOST_PROBLEMS:
        problems[-1] += f"; and {len(bad) - MOST_PROBLEMS} rows more after it"
    if problems or not found:
        return Documents(problems=problems)
    return Documents(
        tokens=np.concatenate([document.tokens for document in found]),
        counts=np.concatenate([document.counts for document in found]),
        lengths=np.array([len(document.tokens) for document in found], dtype=np.int64),
        held_out=np.array([_share(document.content) < recipe.held_out for document in found]),
        problems=[],
    )


def _made(rows: Sequence[Row], recipe: Recipe) -> Iterator[tuple[int, _Document | Bad]]:
    for row in rows:
        if isinstance(row.values, Bad):
            yield row.number, row.values
    good = [(row.number, row.values) for row in rows if not isinstance(row.values, Bad)]
    numbers = [number for number, _ in good]
    values = [value for _, value in good]
    make = {"text": _texts, "instruction": _instructions, "tokens": _tokens}[recipe.format]
    yield from zip(numbers, make(values, recipe), strict=True)


def _texts(rows: Sequence[dict[str, object]], recipe: Recipe) -> Iterator[_Document | Bad]:
    texts = [text_in(row, recipe.text_column) for row in rows]
    encoded = iter(recipe.words.encode([text for text in texts if isinstance(text, str)]))
    for text in texts:
        if isinstance(text, Bad):
            yield text
        else:
            tokens = np.array(next(encoded), dtype=np.int32)
            counts = np.ones(len(tokens), dtype=np.bool_)
            counts[0] = False
            yield _Document(tokens, counts, text.encode())


def _instructions(rows: Sequence[dict[str, object]], recipe: Recipe) -> Iterator[_Document | Bad]:
    chats = [conversation(row, recipe.words) for row in rows]
    return spoken(chats, recipe.words)


def spoken(chats: Iterable[Chat | Bad], words: Words) -> Iterator[_Document | Bad]:
    """Give the documents of conversations: what is answered counts, and nothing else."""
    chats = list(chats)
    encoded = iter(words.encode_with_offsets([chat.text for chat in chats if isinstance(chat, Chat)]))
    for chat in chats:
        if isinstance(chat, Bad):
            yield chat
            continue
        ids, begins = next(encoded)
        at = np.array(begins, dtype=np.int64)
        counts = np.zeros(len(ids), dtype=np.bool_)
        for first, end in chat.answers:
            counts |= (at >= first) & (at < end)
        if chat.ends:
            ids, counts = [*ids, words.end], np.append(counts, True)
        counts[0] = False
        if counts.any():
            yield _Document(np.array(ids, dtype=np.int32), counts, chat.text.encode())
        else:
            yield Bad("found an answer of no tokens; allowed: at least one; fill it or remove the row")


def _tokens(rows: Sequence[dict[str, object]], recipe: Recipe) -> Iterator[_Document | Bad]:
    for row in rows:
        yield _ready_made(row, recipe.vocab_size)


def _ready_made(row: dict[str, object], vocab_size: int) -> _Document | Bad:
    ids = _numbers(row.get("input_ids"))
    if ids is None or len(ids) < 2:
        return Bad(
            "input_ids: found no list of at least two whole numbers; allowed: the tokens of a document; repair the row"
        )
    if ids.min() < 0 or ids.max() >= vocab_size:
        wrong = ids.min() if ids.min() < 0 else ids.max()
        return Bad(
            f"input_ids: found {wrong}; allowed: 0 to {vocab_size - 1}, the model's vocabulary; use its tokenizer"
        )
    counts = np.ones(len(ids), dtype=np.bool_)
    if row.get("loss_mask") is not None:
        mask = _numbers(row["loss_mask"])
        if mask is None or len(mask) != len(ids) or not np.isin(mask, (0, 1)).all():
            return Bad(
                "loss_mask: found something else than a 0 or 1 for each of input_ids; allowed: as many; repair the row"
            )
        counts = mask.astype(np.bool_)
    counts[0] = False
    if not counts.any():
        return Bad("loss_mask: found 0 after the first token everywhere; allowed: a 1; remove the row")
    return _Document(ids.astype(np.int32), counts, ids.tobytes())


def _numbers(value: object) -> npt.NDArray[np.int64] | None:
    if not isinstance(value, list):
        return None
    items = cast(list[object], value)
    if not all(isinstance(item, int) for item in items):
        return None
    try:
        return np.array(items, dtype=np.int64)
    except OverflowError:
        return None


def _share(content: bytes) -> float:
    """Return a number in [0, 1) that the content alone decides."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest()) / 2**64
