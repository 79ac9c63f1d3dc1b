"""Processes killed at named points of a save, and what the next one finds.

Report: https://github.com/ray-project/ray/issues/45516 (a driver that is killed and started again begins anew).
"""

import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tests.train.checkpoint.checkpoint_support import Heard, alone, build, checkpoints_at, resume, save, steps
from workloads.train.checkpoint.commit import BEFORE_MARKER, BEFORE_PRUNE
from workloads.train.checkpoint.manifest import folder
from workloads.train.checkpoint.store import DirectoryStore
from workloads.train.checkpoint.upload import IN_UPLOAD
from workloads.train.errors import StoreError

pytestmark = pytest.mark.xdist_group("ranks")


def in_a_process(do: Callable[..., None], *arguments: object) -> int | None:
    """Run it in a process of its own and return how that ended: -9 for one that was killed."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.train.checkpoint.checkpoint_support"])
    process = context.Process(target=do, args=arguments)
    process.start()
    process.join(120)
    return process.exitcode


def save_until_killed(path: Path, point: str) -> None:
    """Save steps 1 and 2 undisturbed; die in the save of step 3."""
    with alone(path / f"meeting-{os.getpid()}"):
        trained, reached = build(), list[str]()

        def reach(name: str) -> None:
            reached.append(name)
            if name == point and made.last == f"{path}/store/{folder(2)}":
                os.kill(os.getpid(), signal.SIGKILL)

        with checkpoints_at(
            DirectoryStore(f"{path}/store"), reach=reach, streams=1, local_path=f"{path}/local"
        ) as made:
            for step in (1, 2, 3):
                trained.step(step)
                save(made, trained, step)


@pytest.mark.parametrize(
    ("point", "resumed", "left"),
    [
        (IN_UPLOAD, 2, [1, 2, 3]),
        (BEFORE_MARKER, 2, [1, 2, 3]),
        (BEFORE_PRUNE, 3, [1, 2, 3]),
    ],
)
def test_a_killed_process_is_resumed_from_what_counted(
    tmp_path: Path, point: str, resumed: int, left: list[int]
) -> None:
    assert in_a_process(save_until_killed, tmp_path, point) == -signal.SIGKILL
    store, heard = DirectoryStore(f"{tmp_path}/store"), Heard()
    assert steps(store) == [folder(step) for step in left]
    with alone(tmp_path / "meeting"):
        undisturbed = build()
        expected = [undisturbed.step(step) for step in range(1, 6)]
        trained = build(seed=99)
        with checkpoints_at(store, tell=heard, local_path=f"{tmp_path}/local") as made:
            assert len(list((tmp_path / "local").iterdir())) == 1, "what the killed process left there is gone"
            found = resume(made, trained)
            assert found is not None
            assert (found.step, found.extra) == (resumed, {"position": 8 * resumed})
            assert found.refused == (() if resumed == 3 else (f"{folder(3)}: incomplete, no manifest.json",))
            losses = [trained.step(step) for step in range(resumed + 1, 6)]
            save(made, trained, 5)
    assert losses == expected[resumed:]
    assert steps(store) == [folder(resumed), folder(5)]


def save_with_little_room(path: Path, answer: Any) -> None:
    """Let the system refuse files of more than 4 kB, as a full disk does."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with alone(path / "meeting"):
        trained = build(words=2000)
        trained.step(1)
        with checkpoints_at(DirectoryStore(f"{path}/store"), local_path=f"{path}/local") as made:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
            try:
                save(made, trained, 1)
            except StoreError as error:
                text = str(error)
            else:
                text = "saved"
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            save(made, trained, 2)
    answer.send(text)


def test_a_local_disk_without_room_drops_the_checkpoint(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    receive, send = context.Pipe(duplex=False)
    assert in_a_process(save_with_little_room, tmp_path, send) == 0
    text = cast(str, receive.recv())
    assert text.startswith(
        f"the last checkpoint is not durable: local directory {tmp_path}/local/train-staging-rank-0-"
    )
    assert "cannot write a checkpoint: [Errno 27] File too large; last complete checkpoint: none" in text
    assert steps(DirectoryStore(f"{tmp_path}/store")) == [folder(2)]
