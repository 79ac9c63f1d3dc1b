"""Small sources of data, and what tests ask of packed ones."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from workloads.train.data.batch import IGNORED, Batch
from workloads.train.data.config import DataConfig
from workloads.train.data.prepare import Data, open_data
from workloads.train.data.sequences import Sequences
from workloads.train.data.tokenizer import byte_words

WORDS = byte_words()
VOCAB = WORDS.vocab_size


def write(path: Path, rows: Iterable[Mapping[str, object] | str]) -> Path:
    """Write a .jsonl file; a text is a line as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def texts(count: int, length: int = 20) -> list[dict[str, object]]:
    """Return rows of different texts, of different lengths."""
    return [{"text": f"row {number} " + "abcdefghij"[number % 10] * (number * 7 % length)} for number in range(count)]


def opened(source: str | Path, cache: Path, **settings: Any) -> Data:
    """Prepare a source with the byte-level tokenizer; nothing is held out unless asked for."""
    values: dict[str, Any] = {"held_out": 0, "sequence_length": 32, **settings}
    vocab_size = values.pop("vocab_size", VOCAB)
    config = DataConfig(source=str(source), cache_path=str(cache), **values)
    assert config.problems() == []
    return open_data(config, vocab_size=vocab_size)


def rows(tensor: Any) -> list[list[int]]:
    return cast(list[list[int]], tensor.tolist())


def documents_in(batch: Batch) -> list[tuple[list[int], list[int]]]:
    """Return the inputs and labels of every document, told apart by the positions alone."""
    found: list[tuple[list[int], list[int]]] = []
    for ids, labels, positions in zip(rows(batch.input_ids), rows(batch.labels), rows(batch.position_ids), strict=True):
        starts = [at for at, position in enumerate(positions) if position == 0]
        for start, end in zip(starts, [*starts[1:], len(ids)], strict=True):
            assert positions[start:end] == list(range(end - start))
            found.append((ids[start:end], labels[start:end]))
    return found


def said_in(sequences: Sequences) -> list[bytes]:
    """Return what the documents of all sequences say: the first token and all that are predicted. Padding says nothing."""
    found: list[bytes] = []
    for ids, labels in documents_in(sequences.batch(range(len(sequences)))):
        if any(label != IGNORED for label in labels):
            tokens = [ids[0], *(label for label in labels if label != IGNORED)]
            found.append(bytes_of(tokens))
    return found


def bytes_of(tokens: list[int]) -> bytes:
    """Return the bytes that tokens of the byte-level tokenizer stand for; its end is a line's end."""
    from tokenizers import Tokenizer

    decoded = cast(str, Tokenizer.from_str(WORDS.serialized).decode(tokens, skip_special_tokens=False))  # pyright: ignore[reportUnknownMemberType]
    return decoded.replace("<|endoftext|>", "\n").encode()
