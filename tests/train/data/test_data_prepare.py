"""A source is packed once a node, whole or not at all, and opened by all ranks."""

import fcntl
import json
import math
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.train.data.data_support import VOCAB, opened, said_in, texts, write
from tests.train.data.data_support import rows as rows_of
from workloads.train.data import prepare
from workloads.train.data.batch import IGNORED
from workloads.train.data.packed import MANIFEST
from workloads.train.data.prepare import Data
from workloads.train.data.state import Loader
from workloads.train.errors import TrainingError, UsageError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path / "a.jsonl", texts(200))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def folders(cache: Path) -> list[Path]:
    return sorted(path for path in cache.iterdir() if path.is_dir())


def test_all_that_the_rows_say_is_in_the_sequences(source: Path, cache: Path) -> None:
    data = opened(source, cache)
    wanted = sorted(f"{row['text']}\n".encode() for row in texts(200))
    assert sorted(said_in(data.train)) == wanted
    assert data.held_out is None
    manifest: Any = data.summary["train"]
    assert manifest["documents"] == 200
    assert manifest["labels"] == sum(len(one) - 1 for one in wanted)
    assert manifest["tokens"] == sum(map(len, wanted))
    assert manifest["fill"] == pytest.approx(manifest["tokens"] / (len(data.train) * 33), abs=1e-3)
    assert manifest["fill"] > 0.9


def test_padding_is_not_counted_as_tokens(cache: Path, tmp_path: Path) -> None:
    data = opened(write(tmp_path / "a.jsonl", [{"text": "abc"}]), cache)
    batch = data.train.batch([0])
    assert batch.num_tokens == 3
    assert int((batch.labels != IGNORED).sum()) == 3


def test_17_rows_on_8_ranks(cache: Path, tmp_path: Path) -> None:
    """Each row fills a sequence; every rank gets as many batches, and an epoch misses none."""
    rows = [{"text": f"{number:02d}" * 16} for number in range(17)]
    data = opened(write(tmp_path / "a.jsonl", rows), cache)
    assert len(data.train) == 17
    loaders = [Loader(data.train, seed=0, rank=rank, world_size=8, micro_batch=1, accumulation=1) for rank in range(8)]
    found = [batch for _ in range(17) for one in loaders for batch in one.next_micro_batches()]
    for one in loaders:
        one.close()
    seen = [tuple(rows_of(batch.input_ids)[0]) for batch in found]
    assert all(len(set(seen[first : first + 17])) == 17 for first in range(0, 8 * 17, 17))
    assert {batch.num_tokens for batch in found} == {32}


def test_held_out_rows_are_not_trained_on(source: Path, cache: Path) -> None:
    data = opened(source, cache, held_out=0.2)
    assert data.held_out is not None
    trained, evaluated = said_in(data.train), said_in(data.held_out)
    assert not set(trained) & set(evaluated)
    assert len(trained) + len(evaluated) == 200
    assert data.train.fingerprint != data.held_out.fingerprint


def test_a_second_opening_packs_nothing(source: Path, cache: Path) -> None:
    first, second = opened(source, cache), opened(source, cache)
    assert (first.summary["prepared_by"], second.summary["prepared_by"]) == ("one process", "an earlier run")
    assert second.train.fingerprint == first.train.fingerprint
    assert len(folders(cache)) == 1


@pytest.mark.parametrize(
    "change", [{"sequence_length": 64}, {"held_out": 0.1}, {"text_column": "other"}, {"format": "instruction"}], ids=str
)
def test_another_setting_is_packed_anew(tmp_path: Path, cache: Path, change: dict[str, Any]) -> None:
    rows = [{**row, "other": row["text"], "prompt": "a ", "response": row["text"]} for row in texts(100)]
    source = write(tmp_path / "a.jsonl", rows)
    opened(source, cache)
    opened(source, cache, **change)
    assert len(folders(cache)) == 2


def test_a_changed_file_is_packed_anew_and_has_another_fingerprint(source: Path, cache: Path) -> None:
    first = opened(source, cache)
    write(source, texts(201))
    assert opened(source, cache).train.fingerprint != first.train.fingerprint


def test_a_copy_of_the_data_is_the_same_data(source: Path, cache: Path, tmp_path: Path) -> None:
    """On a node that replaced another: other times, another path, and the checkpoint goes on."""
    other = tmp_path / "elsewhere"
    other.mkdir()
    copy = write(other / "b.jsonl", texts(200))
    assert opened(copy, tmp_path / "cache of another node").train.fingerprint == opened(source, cache).train.fingerprint


def test_a_resume_with_other_data_is_refused(source: Path, cache: Path) -> None:
    settings: dict[str, Any] = {"seed": 0, "rank": 0, "world_size": 1, "micro_batch": 1, "accumulation": 1}
    state = Loader(opened(source, cache).train, **settings).state
    Loader(opened(source, cache).train, **settings).resume(state)
    write(source, [*texts(199), {"text": "changed"}])
    with pytest.raises(
        TrainingError, match=r"^data: found fingerprint \w{12}, but the checkpoint was trained on \w{12}"
    ):
        Loader(opened(source, cache).train, **settings).resume(state)


def test_one_rank_of_a_node_packs_and_the_others_wait(
    source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packs: list[int] = []
    really = prepare.tokenised

    def slowly(*arguments: Any) -> Any:
        packs.append(threading.get_ident())
        time.sleep(0.3)
        return really(*arguments)

    monkeypatch.setattr(prepare, "tokenised", slowly)
    with ThreadPoolExecutor(8) as ranks:
        found = [*ranks.map(opened, [source] * 8, [cache] * 8)]
    assert len(packs) == 1
    assert len({one.train.fingerprint for one in found}) == 1
    assert [one.summary["prepared_by"] for one in found].count("one process") == 1


def test_what_is_wrong_is_found_once_and_said_by_every_rank(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(tmp_path / "a.jsonl", [{"text": ""}])
    packs: list[int] = []
    really = prepare.tokenised

    def slowly(*arguments: Any) -> Any:
        packs.append(1)
        time.sleep(0.3)
        return really(*arguments)

    monkeypatch.setattr(prepare, "tokenised", slowly)

    def refused(_: int) -> str:
        with pytest.raises(UsageError) as caught:
            opened(source, cache)
        return str(caught.value)

    with ThreadPoolExecutor(4) as ranks:
        found = set(ranks.map(refused, range(4)))
    (line,) = found
    assert line.startswith(f"data {source} row 1: text: found an empty text")
    assert len(packs) == 1
    write(source, [{"text": "repaired"}])
    assert len(opened(source, cache).train) == 1


def test_a_rank_does_not_wait_for_ever(source: Path, cache: Path) -> None:
    opened(source, cache)
    (lock,) = cache.glob("*.lock")
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(
            TrainingError, match=r"^data cache .*: another process of this node packs for more than 0.3 s; "
        ):
            opened(source, cache, preparation_timeout=0.3)


def test_a_preparation_that_was_killed_is_begun_anew(source: Path, cache: Path) -> None:
    """The folder has its name only when it is whole; what was left of another try is removed."""
    wanted = opened(source, cache).train.fingerprint
    (folder,) = folders(cache)
    left = folder.with_name(f"{folder.name}.unfinished")
    folder.rename(left)
    (left / MANIFEST).unlink()
    (left / "train.tokens").write_bytes(b"half of it")
    assert opened(source, cache).train.fingerprint == wanted
    assert folders(cache) == [folder]


def test_a_failure_leaves_no_folder(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(UsageError):
        opened(write(tmp_path / "a.jsonl", [{"text": ""}]), cache)
    assert folders(cache) == []


Damage = Callable[[Path], object]
DAMAGE: list[tuple[Damage, str]] = [
    (lambda folder: os.truncate(folder / "train.tokens", 100), "train.tokens: found 100 bytes; allowed: "),
    (lambda folder: (folder / "train.flags").unlink(), "train.flags: cannot read it: "),
    (lambda folder: (folder / MANIFEST).write_text("{"), f"{MANIFEST}: cannot read it: "),
    (lambda folder: (folder / MANIFEST).write_text(json.dumps({"a": 1})), f"{MANIFEST}: cannot read it: "),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGE)
def test_a_damaged_cache_is_one_line(source: Path, cache: Path, damage: Damage, words: str) -> None:
    opened(source, cache)
    (folder,) = folders(cache)
    damage(folder)
    with pytest.raises(TrainingError) as caught:
        opened(source, cache)
    assert str(caught.value).startswith(f"data cache {folder}/{words}")
    assert str(caught.value).endswith(f"; delete the folder {folder}")
    assert len(str(caught.value).splitlines()) == 1


def test_a_cache_that_cannot_be_written_is_one_line(source: Path) -> None:
    with pytest.raises(TrainingError, match=r"^data cache /proc/cache: cannot use it: .*; set data.cache_path$"):
        opened(source, Path("/proc/cache"))


def test_a_full_disk_is_one_line(source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(prepare.Writer):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self._flags = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115 -- closed as the one that it stands for

    monkeypatch.setattr(prepare, "Writer", Full)
    with pytest.raises(
        TrainingError, match=r"^data cache .*: cannot write it: .*No space left on device; set data.cache_path$"
    ):
        opened(source, cache)
    assert folders(cache) == []


def test_the_rows_of_all_files_that_are_wrong_are_said_together(tmp_path: Path, cache: Path) -> None:
    write(tmp_path / "a.jsonl", [{"text": "good"}, {"text": ""}])
    write(tmp_path / "b.jsonl", [{"text": None}, "{"])
    with pytest.raises(UsageError) as caught:
        opened(tmp_path / "*.jsonl", cache)
    found = [line.partition(": ")[0] for line in str(caught.value).splitlines()]
    assert found == [f"data {tmp_path}/{name}" for name in ("a.jsonl row 2", "b.jsonl row 1", "b.jsonl row 2")]


def test_hopeless_data_are_not_read_to_the_end(tmp_path: Path, cache: Path) -> None:
    for number in range(5):
        write(tmp_path / f"{number}.jsonl", [{"text": ""}] * 20)
    with pytest.raises(UsageError) as caught:
        opened(tmp_path / "*.jsonl", cache)
    lines = str(caught.value).splitlines()
    assert len(lines) == prepare.MOST_PROBLEMS + 1
    assert lines[-1] == "data: more than 20 bad rows; the rest was not read"


def test_no_rows_at_all_are_refused(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(UsageError, match=r"^data.source: found no rows in .*; allowed: at least one; "):
        opened(write(tmp_path / "a.jsonl", ["", ""]), cache)


def test_a_share_that_leaves_nothing_to_evaluate_is_refused(tmp_path: Path, cache: Path) -> None:
    words = r"^data.held_out: found 0.001 of 3 rows, which leaves none for held_out; allowed: "
    with pytest.raises(UsageError, match=words):
        opened(write(tmp_path / "a.jsonl", texts(3)), cache, held_out=0.001)


def test_a_tokenizer_beyond_the_model_is_refused(source: Path, cache: Path) -> None:
    words = r"^data.tokenizer: found bytes with 257 tokens; allowed: 256 at most, the model's vocabulary; set the tokenizer of the model$"
    with pytest.raises(UsageError, match=words):
        opened(source, cache, vocab_size=256)
    assert len(opened(source, cache, vocab_size=VOCAB).train) > 0


def test_tokens_are_held_against_the_vocabulary_of_each_model(tmp_path: Path, cache: Path) -> None:
    """What one model could take lies packed in the cache; another one is refused all the same."""
    source = write(tmp_path / "a.jsonl", [{"input_ids": [1, 299]}])
    opened(source, cache, format="tokens", vocab_size=300)
    with pytest.raises(UsageError, match=r"row 1: input_ids: found 299; allowed: 0 to 298"):
        opened(source, cache, format="tokens", vocab_size=299)


@pytest.fixture(scope="module")
def builtin(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return opened("builtin", tmp_path_factory.mktemp("builtin"), sequence_length=256, held_out=0.05)


def test_everyone_has_text_to_train_on(builtin: Data) -> None:
    assert builtin.held_out is not None
    manifest: Any = builtin.summary
    assert manifest["train"]["tokens"] > 500_000
    assert manifest["held_out"]["tokens"] > 10_000
    assert manifest["train"]["fill"] > 0.97


def test_what_is_learned_of_that_text_helps_on_what_was_held_out(builtin: Data) -> None:
    """Pairs of bytes, counted in the one, predict the other: far better than a guess, and nearly as well as themselves."""
    assert builtin.held_out is not None
    pairs = np.ones((VOCAB, VOCAB))
    batch = builtin.train.batch(range(len(builtin.train)))
    counts = (batch.labels != IGNORED).numpy()
    np.add.at(pairs, (batch.input_ids.numpy()[counts], batch.labels.numpy()[counts]), 1)
    losses = -np.log(pairs / pairs.sum(axis=1, keepdims=True))
    evaluated = builtin.held_out.batch(range(len(builtin.held_out)))
    kept = (evaluated.labels != IGNORED).numpy()
    found = float(losses[evaluated.input_ids.numpy()[kept], evaluated.labels.numpy()[kept]].mean())
    known = float(losses[batch.input_ids.numpy()[counts], batch.labels.numpy()[counts]].mean())
    assert found < 0.5 * math.log(VOCAB)
    assert found == pytest.approx(known, rel=0.05)


def test_text_is_packed_at_more_than_twenty_times_the_speed_of_a_gpu(
    builtin: Data, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rank trains some 60,000 tokens a second: data may take a twentieth of that time, and are made beside it anyway."""
    torch.set_num_threads(1)
    with Loader(builtin.train, seed=0, rank=0, world_size=1, micro_batch=24, accumulation=4) as one:
        one.next_micro_batches()
        started, tokens = time.thread_time(), 0
        while tokens < 1_000_000:
            tokens += sum(builtin.train.batch(numbers).num_tokens for numbers in one.numbers(tokens))
        rate = tokens / (time.thread_time() - started)
    with capsys.disabled():
        print(f"packed text: {rate / 1e6:.1f} million tokens/s of one core ", end="")
    assert rate > 20 * 60_000
