"""The hash of the training program: what changes it and what does not."""

import os
from pathlib import Path

import pytest

from infra.code_archive import read_code


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_same_files_same_hash_wherever_and_whenever(tmp_path: Path) -> None:
    files = {"train/a.py": "1", "train/data/b.py": "2"}
    one, two = write(tmp_path / "one", files), write(tmp_path / "two", files)
    os.utime(two / "train/a.py", (0, 0))
    assert read_code(one / "train").sha256 == read_code(two / "train").sha256


@pytest.mark.parametrize(
    "files",
    [
        {"train/a.py": "2", "train/b.py": ""},
        {"train/c.py": "1", "train/b.py": ""},
        {"train/a.py": "1"},
        {"train/a.py": "", "train/b.py": "1"},
    ],
    ids=["content", "name", "fewer", "swapped"],
)
def test_any_difference_changes_the_hash(tmp_path: Path, files: dict[str, str]) -> None:
    before = read_code(write(tmp_path / "one", {"train/a.py": "1", "train/b.py": ""}) / "train").sha256
    assert read_code(write(tmp_path / "two", files) / "train").sha256 != before


def test_bytecode_is_no_part_of_it(tmp_path: Path) -> None:
    root = write(tmp_path, {"train/a.py": "1"}) / "train"
    before = read_code(root).sha256
    write(root, {"__pycache__/a.cpython-313.pyc": "x", "b.pyc": "x"})
    assert read_code(root).sha256 == before
    assert [path.name for path in read_code(root).files] == ["a.py"]


def test_no_code_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="found no file; allowed: the training program; restore it"):
        read_code(tmp_path / "train")
