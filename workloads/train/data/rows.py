"""The rows of a source, in units that are read apart from each other: byte ranges of .jsonl files, row groups of .parquet files."""

# pyarrow types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ..errors import UsageError
from . import builtin
from .source import JSONL, SourceFile, open_file, reading

UNIT_BYTES = 8 << 20
"""Bytes of a .jsonl file that one process reads at a time."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of a source. The units of a source do not depend on who reads them."""

    file: SourceFile | None
    """None: the text that Python ships."""
    first: int = 0
    """The first byte or row group."""
    end: int = 0
    """The one after the last."""


@dataclass(frozen=True, slots=True)
class Bad:
    """A row that cannot be used, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Row:
    """A row; `number` counts from 0 in the unit."""

    number: int
    values: dict[str, object] | Bad


def units_of(files: Sequence[SourceFile], columns: Sequence[Sequence[str]]) -> list[Unit]:
    """Divide files into units.

    Args:
        files: what there is to read.
        columns: alternatives; a .parquet file must have all columns of one of them.

    Raises:
        UsageError: one line for each file that is empty, broken or without the columns.
        StoreError: a file cannot be read.
    """
    units: list[Unit] = []
    problems: list[str] = []
    for file in files:
        if not file.bytes:
            problems.append(f"data {file.uri}: found 0 bytes; allowed: at least one row; remove the file")
        elif file.suffix == JSONL:
            starts = range(0, file.bytes, UNIT_BYTES)
            units.extend(Unit(file, start, min(start + UNIT_BYTES, file.bytes)) for start in starts)
        else:
            try:
                units.extend(Unit(file, group, group + 1) for group in range(_row_groups(file, columns)))
            except UsageError as error:
                problems.append(str(error))
    if problems:
        raise UsageError("\n".join(problems))
    return units


def read(unit: Unit, columns: Sequence[Sequence[str]]) -> Iterator[Row]:
    """Give the rows of a unit. Raises StoreError where the file cannot be read, and UsageError where it is broken."""
    if unit.file is None:
        texts = enumerate(builtin.documents())
        yield from (Row(number, {"text": text}) for number, text in texts)
        return
    with reading(unit.file.uri):
        yield from _lines(unit.file.uri, unit) if unit.file.suffix == JSONL else _group(unit.file, unit.first, columns)


def where(unit: Unit, number: int) -> str:
    """Return the name of a row for an error: its file, and its number in there from 1 on."""
    if unit.file is None:
        return f"data builtin row {number + 1}"
    uri = unit.file.uri
    with reading(uri):
        if unit.file.suffix == JSONL:
            before = _count_lines(uri, unit.first)
        else:
            from pyarrow import parquet

            with open_file(uri) as stream:
                metadata = parquet.ParquetFile(stream).metadata
                before = sum(cast(int, metadata.row_group(group).num_rows) for group in range(unit.first))
    return f"data {uri} row {before + number + 1}"


def _lines(uri: str, unit: Unit) -> Iterator[Row]:
    with open_file(uri) as stream:
        position = _start_of_line(unit.first, stream)
        number = 0
        while position < unit.end and (line := stream.readline()):
            position += len(line)
            # A file may end with an empty line; it says nothing.
            if line.strip():
                yield Row(number, _parsed(line))
            number += 1


def _start_of_line(first: int, stream: Any) -> int:
    """Go to the first line that starts at or after a byte; the line before belongs to the unit before."""
    if not first:
        return 0
    stream.seek(first - 1)
    return first - 1 + len(cast(bytes, stream.readline()))


def _count_lines(uri: str, end: int) -> int:
    """Return how many lines start before a byte."""
    position = lines = 0
    with open_file(uri) as stream:
        while position < end and (line := stream.readline()):
            position += len(line)
            lines += 1
    return lines


def _parsed(line: bytes) -> dict[str, object] | Bad:
    try:
        found = json.loads(line.decode())
    except UnicodeDecodeError as error:
        return Bad(
            f"found byte 0x{line[error.start]:02x} at {error.start} of the row; allowed: UTF-8; convert the file"
        )
    except ValueError as error:
        return Bad(f"found no JSON ({error}); allowed: one JSON object a line; repair the row")
    if not isinstance(found, dict):
        return Bad(f"found a {type(found).__name__}; allowed: one JSON object a line; repair the row")
    return cast(dict[str, object], found)


def _row_groups(file: SourceFile, columns: Sequence[Sequence[str]]) -> int:
    from pyarrow import ArrowException, parquet

    with reading(file.uri), open_file(file.uri) as stream:
        try:
            opened = parquet.ParquetFile(stream)
        except ArrowException as error:
            raise _broken(file, error) from error
        names = cast(list[str], opened.schema_arrow.names)
        if not any(set(alternative) <= set(names) for alternative in columns):
            allowed = " or ".join(", ".join(alternative) for alternative in columns)
            raise UsageError(
                f"data {file.uri}: found the columns {', '.join(names)}; allowed: {allowed}; set data.format or data.text_column"
            )
        if not opened.metadata.num_rows:
            raise UsageError(f"data {file.uri}: found 0 rows; allowed: at least one; remove the file")
        return cast(int, opened.metadata.num_row_groups)


def _group(file: SourceFile, group: int, columns: Sequence[Sequence[str]]) -> Iterator[Row]:
    from pyarrow import ArrowException, parquet

    wanted = {name for alternative in columns for name in alternative} | {"loss_mask"}
    with open_file(file.uri) as stream:
        try:
            opened = parquet.ParquetFile(stream)
            names = [name for name in cast(list[str], opened.schema_arrow.names) if name in wanted]
            table = opened.read_row_group(group, columns=names)
        except ArrowException as error:
            raise _broken(file, error) from error
        except OSError as error:
            # So pyarrow calls pages that it cannot decode; those of the disk carry a number.
            if error.errno is not None:
                raise
            raise _broken(file, error) from error
    for number in range(table.num_rows):
        try:
            yield Row(number, {name: table.column(name)[number].as_py() for name in names})
        except UnicodeDecodeError as error:
            yield Row(number, Bad(f"found bytes that are no UTF-8 ({error.reason}); allowed: UTF-8; convert the file"))


def _broken(file: SourceFile, error: Exception) -> UsageError:
    text = " ".join(str(error).split())
    return UsageError(
        f"data {file.uri}: found no parquet that can be read ({text}); allowed: a whole file; copy it again"
    )
