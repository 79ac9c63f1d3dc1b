"""Directories on the local disk: one for each process, and none after it."""

from pathlib import Path

from workloads.train.checkpoint.local import LocalDirectory, share


def test_two_ranks_of_a_node_have_two_directories(tmp_path: Path) -> None:
    first, second = LocalDirectory(str(tmp_path), 0), LocalDirectory(str(tmp_path), 0)
    assert first.path != second.path
    assert first.path.is_dir(), "the second one did not take it for a leftover"
    first.remove()
    assert second.path.is_dir()
    second.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_a_dead_process_left_goes(tmp_path: Path) -> None:
    left = tmp_path / "train-staging-rank-3-abc"
    left.mkdir()
    (left / "lock").write_bytes(b"")
    (left / "__3_0.distcp").write_bytes(b"2 GB")
    cache = tmp_path / "train-cache-0123"
    cache.mkdir()
    (cache / "__0_0.distcp").write_bytes(b"half a checkpoint that a killed process was reading")
    other = tmp_path / "of-another"
    other.mkdir()
    mine = LocalDirectory(str(tmp_path), 0)
    assert sorted(tmp_path.iterdir()) == sorted([other, mine.path])
    mine.remove()


def test_what_another_process_reads_stays(tmp_path: Path) -> None:
    first, second = share(tmp_path / "train-cache-0123"), share(tmp_path / "train-cache-0123")
    first.close()
    LocalDirectory(str(tmp_path), 0).remove()
    assert (tmp_path / "train-cache-0123").is_dir()
    second.close()
    LocalDirectory(str(tmp_path), 0).remove()
    assert list(tmp_path.iterdir()) == []
