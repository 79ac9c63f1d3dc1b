"""The commit of a checkpoint."""

import hashlib
import json
from pathlib import Path

import pytest

from workloads.train.checkpoint.manifest import File, Manifest, NewerFormatError, decode, describe, folder

MANIFEST = Manifest(
    step=10,
    world_size=2,
    fingerprints={"model": "c" * 64},
    extra={"position": 160, "losses": [4.8, None]},
    files=(File(name="__0_0.distcp", bytes=3, sha256="a" * 64), File(name=".metadata", bytes=2, sha256="b" * 64)),
)


def test_it_is_read_as_it_was_written() -> None:
    assert decode(MANIFEST.encode()) == MANIFEST


def test_folders_sort_by_step() -> None:
    assert sorted(map(folder, [100, 9, 20])) == [folder(9), folder(20), folder(100)]


@pytest.mark.parametrize(
    ("change", "missing"),
    [({}, []), ({"__0_0.distcp": 2}, ["__0_0.distcp"]), ({".metadata": None}, [".metadata"]), ({"further": 9}, [])],
    ids=str,
)
def test_a_checkpoint_is_whole_with_every_file_in_its_size(change: dict[str, int | None], missing: list[str]) -> None:
    sizes = {"__0_0.distcp": 3, ".metadata": 2, **change}
    there = {f"{MANIFEST.folder}/{name}": size for name, size in sizes.items() if size is not None}
    assert MANIFEST.missing(there) == missing


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Expecting value"),
        ("[]", "not a manifest of a checkpoint"),
        ("{}", "not a manifest of a checkpoint: KeyError('format')"),
        (json.dumps({"format": 2, "stride": 1}), "not a manifest of a checkpoint: KeyError('sha256')"),
        (MANIFEST.encode().replace("160", "161"), "is not as it was written: its own SHA-256 differs"),
    ],
)
def test_what_is_no_manifest_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"^" + said.replace("(", r"\(").replace(")", r"\)")):
        decode(text)


def test_another_format_is_no_damage() -> None:
    with pytest.raises(NewerFormatError, match=r"^found format 1, this program reads 2$"):
        decode('{"format": 1, "progress": {}}')


def test_a_file_is_described_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    assert describe(path) == File(name="a", bytes=3, sha256=hashlib.sha256(b"abc").hexdigest())
