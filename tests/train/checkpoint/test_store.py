"""The places where checkpoints are kept: a directory and S3 behave alike, and say in one line what they refuse."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from tests.train.checkpoint.checkpoint_support import alone, build, checkpoints_at, resume, save
from tests.train.s3_support import connect, endpoint
from workloads.train.checkpoint.manifest import folder
from workloads.train.checkpoint.store import Store, open_store
from workloads.train.errors import StoreError

__all__ = ["endpoint"]


@pytest.fixture(params=["directory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    if request.param == "directory":
        return open_store(f"{tmp_path}/store/run")
    bucket = f"bucket-{os.getpid()}-{time.monotonic_ns()}"
    client = connect(monkeypatch, cast(str, request.getfixturevalue("endpoint")))
    client.create_bucket(Bucket=bucket)
    client.put_object(Bucket=bucket, Key="checkpoints/run-of-another/a", Body=b"not ours")
    return open_store(f"s3://{bucket}/checkpoints/run")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    return path


def test_a_store_begins_empty(store: Store) -> None:
    assert store.sizes() == {}


def test_a_file_comes_back_as_it_was(store: Store, file: Path, tmp_path: Path) -> None:
    store.put(file, "step-1/.metadata")
    store.put(file, "step-1/__0_0.distcp")
    assert store.sizes() == {"step-1/.metadata": 7, "step-1/__0_0.distcp": 7}
    store.get("step-1/.metadata", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"content"


def test_a_file_is_replaced(store: Store, file: Path) -> None:
    store.put(file, "a/b")
    file.write_bytes(b"longer content")
    store.put(file, "a/b")
    assert store.sizes() == {"a/b": 14}


def test_a_deleted_file_is_gone_and_may_be_deleted_again(store: Store, file: Path) -> None:
    store.put(file, "a/b")
    store.put(file, "a/c")
    store.delete(["a/b", "a/never"])
    store.delete(["a/b"])
    assert store.sizes() == {"a/c": 7}


def test_what_is_not_there_cannot_be_read(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"^checkpoint store .*/run: cannot read step-1/x: .*(No such file|Not Found)"):
        store.get("step-1/x", tmp_path / "back")


def test_a_checkpoint_goes_to_any_store_and_comes_back(store: Store, tmp_path: Path) -> None:
    with alone(tmp_path / "meeting"), checkpoints_at(store) as made:
        trained = build()
        for step in (1, 2, 3):
            trained.step(step)
            save(made, trained, step)
        assert made.last == f"{store.uri}/{folder(3)}"
        assert {name.partition("/")[0] for name in store.sizes()} == {folder(2), folder(3)}
        store.delete([f"{folder(3)}/__0_0.distcp"])
        found = resume(made, build())
        assert found is not None
        assert (found.step, found.extra) == (2, {"position": 16})


def test_a_large_file_goes_in_parts_and_comes_back(store: Store, tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(os.urandom(1 << 20) * 70)
    store.put(large, "a/large")
    store.get("a/large", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == large.read_bytes()


def test_more_files_than_one_request_deletes_are_deleted(store: Store, file: Path) -> None:
    for number in range(3):
        store.put(file, f"a/{number}")
    store.delete(f"a/{number}" for number in range(1500))
    assert store.sizes() == {}


def test_an_empty_folder_does_not_stay(tmp_path: Path, file: Path) -> None:
    store = open_store(f"{tmp_path}/store")
    store.put(file, "step-1/b")
    store.delete(["step-1/b"])
    assert list((tmp_path / "store").iterdir()) == []


def test_a_full_disk_is_said_and_leaves_no_file(tmp_path: Path, file: Path) -> None:
    folder = tmp_path / "store" / "step-1"
    folder.mkdir(parents=True)
    (folder / "b.unfinished").symlink_to("/dev/full")
    store = open_store(f"{tmp_path}/store")
    with pytest.raises(StoreError) as caught:
        store.put(file, "step-1/b")
    assert (
        str(caught.value)
        == f"checkpoint store {tmp_path}/store: cannot write step-1/b: [Errno 28] No space left on device"
    )
    assert store.sizes() == {}


def test_a_half_written_file_has_no_name_yet(tmp_path: Path, file: Path) -> None:
    """A process that is killed while it writes leaves something that no checkpoint names."""
    folder = tmp_path / "store" / "step-1"
    folder.mkdir(parents=True)
    (folder / "b.unfinished").write_bytes(b"con")
    store = open_store(f"{tmp_path}/store")
    assert store.sizes() == {"step-1/b.unfinished": 3}
    store.put(file, "step-1/b")
    assert store.sizes() == {"step-1/b": 7}


def test_a_path_that_cannot_be_a_directory_is_said(tmp_path: Path, file: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot write step-1/b: \[Errno 20\] Not a directory"):
        open_store(f"{file}/store").put(file, "step-1/b")


def test_a_bucket_that_does_not_exist_is_said(endpoint: str, monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    connect(monkeypatch, endpoint)
    store = open_store("s3://no-such-bucket-anywhere/checkpoints/run")
    with pytest.raises(
        StoreError,
        match=r"^checkpoint store s3://no-such-bucket-anywhere/checkpoints/run: cannot list it: .*NoSuchBucket",
    ):
        store.sizes()
    with pytest.raises(StoreError, match=r"cannot write step-1/a: .*NoSuchBucket"):
        store.put(file, "step-1/a")


class Refusing(BaseHTTPRequestHandler):
    """An S3 that lets nobody write."""

    def do_PUT(self) -> None:
        body = b"<Error><Code>AccessDenied</Code><Message>no s3:PutObject for you</Message></Error>"
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        """Refuse to delete, as S3 does: in a request that succeeds."""
        body = b"<DeleteResult><Error><Key>checkpoints/run/step-1/a</Key><Code>AccessDenied</Code><Message>not yours</Message></Error></DeleteResult>"
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    connect(monkeypatch, f"http://127.0.0.1:{server.server_port}")
    yield open_store("s3://bucket/checkpoints/run")
    server.shutdown()
    server.server_close()


def test_a_denied_write_is_said_in_the_words_of_s3(refusing: Store, file: Path) -> None:
    with pytest.raises(StoreError) as caught:
        refusing.put(file, "step-1/a")
    assert "cannot write step-1/a: " in str(caught.value)
    assert "(AccessDenied) when calling the PutObject operation: no s3:PutObject for you" in str(caught.value)


def test_a_denied_delete_is_said_though_the_request_succeeds(refusing: Store) -> None:
    with pytest.raises(StoreError) as caught:
        refusing.delete(["step-1/a"])
    assert str(caught.value) == (
        "checkpoint store s3://bucket/checkpoints/run: cannot delete step-1/a: AccessDenied: not yours"
    )


def test_an_s3_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        connect(monkeypatch, f"http://127.0.0.1:{taken.getsockname()[1]}")
        store = open_store("s3://bucket/checkpoints/run")
        started = time.monotonic()
        with pytest.raises(StoreError, match=r"cannot list it: Could not connect to the endpoint URL"):
            store.sizes()
    assert time.monotonic() - started < 60
