"""Files of a source, on disk and in S3, and their rows in units."""

# pyarrow does not type its functions.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false

import time
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.train.data.data_support import texts, write
from tests.train.s3_support import connect, endpoint
from workloads.train.data import rows, source
from workloads.train.data.rows import Bad, Unit, read, units_of, where
from workloads.train.data.source import list_files
from workloads.train.errors import StoreError, UsageError

__all__ = ["endpoint"]

COLUMNS = [["text"]]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> tuple[str, Any]:
    source._client.cache_clear()  # pyright: ignore[reportPrivateUsage]
    client = connect(monkeypatch, endpoint)
    name = f"bucket-{time.monotonic_ns()}"
    client.create_bucket(Bucket=name)
    return name, client


def values(path: str, columns: list[list[str]] = COLUMNS) -> list[object]:
    found = [row.values for unit in units_of(list_files(path), columns) for row in read(unit, columns)]
    return [row.why if isinstance(row, Bad) else row["text"] for row in found]


def table(path: Path, columns: dict[str, list[Any]], **settings: Any) -> Path:
    cast(Any, parquet).write_table(pa.table(columns), path, **settings)
    return path


def test_a_file_a_folder_and_a_glob_name_files(tmp_path: Path) -> None:
    write(tmp_path / "b.jsonl", texts(1))
    write(tmp_path / "a.jsonl", texts(1))
    (tmp_path / "README.md").write_text("not data")
    assert [Path(file.uri).name for file in list_files(str(tmp_path))] == ["a.jsonl", "b.jsonl"]
    assert [Path(file.uri).name for file in list_files(f"{tmp_path}/b*.jsonl")] == ["b.jsonl"]
    assert len(list_files(f"{tmp_path}/a.jsonl")) == 1
    strange = write(tmp_path / "[x].jsonl", texts(1))
    assert [file.uri for file in list_files(str(strange))] == [str(strange)]


def test_a_source_without_files_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(UsageError, match=r"^data.source: found .* with 1 files, none of the right kind; allowed: "):
        list_files(str(tmp_path))
    with pytest.raises(UsageError, match=r"^data.source: found .*nowhere with 0 files"):
        list_files(str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match=r"^data.source: found .*a.txt; allowed: files that end in .jsonl or .parquet"):
        list_files(str(tmp_path / "a.txt"))


@pytest.mark.parametrize("size", [1, 7, 20, 64, 1000])
def test_units_together_hold_each_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Also where a unit ends at the end of a line, inside one, or in a line that is longer than a unit."""
    wanted = [*texts(30), {"text": "é" * 90}, *texts(3)]
    path = write(tmp_path / "a.jsonl", wanted)
    monkeypatch.setattr(rows, "UNIT_BYTES", size)
    assert values(str(path)) == [row["text"] for row in wanted]


def test_a_last_line_without_an_end_counts(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": "b"}')
    assert values(str(tmp_path)) == ["a", "b"]


def test_s3_reads_as_a_file_does(tmp_path: Path, bucket: tuple[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    name, client = bucket
    wanted = texts(200)
    write(tmp_path / "a.jsonl", wanted)
    table(tmp_path / "b.parquet", {"text": [row["text"] for row in wanted]}, row_group_size=64)
    for file in ("a.jsonl", "b.parquet"):
        client.upload_file(str(tmp_path / file), name, f"in/{file}")
    client.put_object(Bucket=name, Key="in/_SUCCESS", Body=b"")
    client.put_object(Bucket=name, Key="other/c.jsonl", Body=b"{}")
    monkeypatch.setattr(rows, "UNIT_BYTES", 1000)
    monkeypatch.setattr(source, "_BUFFER_BYTES", 300)
    files = list_files(f"s3://{name}/in/")
    assert [file.uri for file in files] == [f"s3://{name}/in/a.jsonl", f"s3://{name}/in/b.parquet"]
    assert all(len(file.tag) == 32 for file in files), "an ETag"
    assert values(f"s3://{name}/in") == values(str(tmp_path)) == [row["text"] for row in (*wanted, *wanted)]


def test_a_bucket_that_is_not_there_is_one_line(bucket: tuple[str, Any]) -> None:
    with pytest.raises(StoreError, match=r"^data s3://nobodys-bucket/a: cannot list it: .*NoSuchBucket.*$"):
        list_files("s3://nobodys-bucket/a")


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", texts(1))
    units = units_of(list_files(str(path)), COLUMNS)
    path.unlink()
    with pytest.raises(StoreError, match=r"^data .*a.jsonl: cannot read it: .*No such file"):
        list(read(units[0], COLUMNS))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"text": "\xff"}', "found byte 0xff at 10 of the row; allowed: UTF-8"),
        (b'{"text": ', "found no JSON ("),
        (b"[1]", "found a list; allowed: one JSON object a line"),
    ],
)
def test_a_broken_row_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes, words: str) -> None:
    path = write(tmp_path / "a.jsonl", texts(5))
    path.write_bytes(path.read_bytes() + line + b"\n" + path.read_bytes())
    # The row is not in the first unit: its number is counted from the beginning of the file all the same.
    monkeypatch.setattr(rows, "UNIT_BYTES", 40)
    ((unit, row),) = [
        (unit, row)
        for unit in units_of(list_files(str(path)), COLUMNS)
        for row in read(unit, COLUMNS)
        if isinstance(row.values, Bad)
    ]
    assert where(unit, row.number) == f"data {path} row 6"
    assert isinstance(row.values, Bad)
    assert row.values.why.startswith(words)


def test_a_row_of_a_later_row_group_has_its_number_in_the_file(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"text": list("abcdefg")}, row_group_size=3)
    assert [unit.first for unit in units_of(list_files(str(path)), COLUMNS)] == [0, 1, 2]
    assert where(Unit(list_files(str(path))[0], 2, 3), 0) == f"data {path} row 7"


def test_files_that_cannot_be_used_are_said_together(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"")
    table(tmp_path / "b.parquet", {"content": ["x"], "id": ["1"]})
    (tmp_path / "c.parquet").write_bytes(b"PAR1 and then nothing")
    table(tmp_path / "d.parquet", {"text": cast(list[str], [])})
    with pytest.raises(UsageError) as caught:
        units_of(list_files(str(tmp_path)), COLUMNS)
    lines = [line.removeprefix(f"data {tmp_path}/") for line in str(caught.value).splitlines()]
    assert [line[:40] for line in lines] == [
        "a.jsonl: found 0 bytes; allowed: at least one row; remove the file"[:40],
        "b.parquet: found the columns content, id; allowed: text; set"[:40],
        "c.parquet: found no parquet that can be read"[:40],
        "d.parquet: found 0 rows; allowed: at least one; remove the file"[:40],
    ]


def test_a_parquet_whose_pages_are_damaged_is_one_line(tmp_path: Path) -> None:
    path = table(
        tmp_path / "a.parquet", {"text": ["some text to be compressed"] * 500}, compression="zstd", use_dictionary=False
    )
    content = bytearray(path.read_bytes())
    content[40:90] = bytes(50)
    path.write_bytes(bytes(content))
    (unit,) = units_of(list_files(str(path)), COLUMNS)
    with pytest.raises(
        UsageError, match=r"^data .*a.parquet: found no parquet that can be read \(.*\); allowed: a whole file"
    ):
        list(read(unit, COLUMNS))
