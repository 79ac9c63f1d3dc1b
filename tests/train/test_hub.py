"""A model's files come to a node once, however busy the Hub is, and a refusal is one line. No request leaves this machine."""

# huggingface_hub types its functions in part only.
# pyright: reportUnknownMemberType=false

import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal.local_aws.server import serving as serving_aws
from tests.train.hub_support import COMMIT, MODEL, Hub, serving
from tests.train.s3_support import connect
from workloads.train import hub
from workloads.train.__main__ import main
from workloads.train.errors import StoreError, UsageError

FILES = {
    "config.json": b'{"model_type": "qwen2"}',
    "model.safetensors": b"weights" * 1000,
    "tokenizer.json": b"{}",
    "pytorch_model.bin": b"the same in another format",
}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A Hub, and an environment in which nothing was downloaded yet."""
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", f"{tmp_path}/hf")
    with serving(FILES) as found:
        monkeypatch.setenv("HF_ENDPOINT", found.url)
        # Read when the library is imported, in this process long ago perhaps.
        import huggingface_hub.constants as constants

        monkeypatch.setattr(constants, "HF_HUB_CACHE", f"{tmp_path}/hf/hub")
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", f"{tmp_path}/no-token")
        monkeypatch.setattr(hub, "WAITS", (0.01,) * 4)
        yield found


def fetch(run: str = "run", **options: Any) -> hub.Source:
    return hub.fetch(MODEL, "main", run=run, **options)


def test_files_come_with_their_commit_and_without_other_formats(served: Hub) -> None:
    found = fetch()
    assert found.version == COMMIT
    assert {path.name for path in found.folder.iterdir()} == FILES.keys() - {"pytorch_model.bin"}
    assert (found.folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]


def test_four_processes_of_a_node_are_one_download(served: Hub) -> None:
    """https://github.com/allenai/open-instruct/pull/1528"""
    context = multiprocessing.get_context("spawn")
    with context.Pool(4) as pool:
        found = pool.map(_fetch_as_a_rank, [served.url] * 4, chunksize=1)
    assert len(set(found)) == 1
    assert [served.downloads(name) for name in FILES] == [1, 1, 1, 0]
    assert served.asked[f"GET /api/models/{MODEL}/revision/main"] == 1


def _fetch_as_a_rank(url: str) -> str:
    assert os.environ["HF_ENDPOINT"] == url
    return str(fetch().folder)


def test_a_second_try_of_a_run_asks_nobody(served: Hub) -> None:
    first = fetch()
    asked = served.asked.total()
    assert fetch() == first
    assert served.asked.total() == asked


def test_another_run_asks_which_version_there_is_and_downloads_nothing_anew(served: Hub) -> None:
    fetch()
    fetch("another")
    assert served.asked[f"GET /api/models/{MODEL}/revision/main"] == 2
    assert served.downloads("model.safetensors") == 1


@pytest.mark.parametrize("ending", ["main", "model.safetensors"])
def test_a_busy_hub_is_asked_again(served: Hub, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    served.busy[ending] = 3
    said: list[str] = []
    assert (fetch(say=said.append).folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert served.busy[ending] == 0
    assert all("429" in line and "next try in" in line for line in said)


def test_a_hub_that_stays_busy_is_given_up(served: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    served.busy["main"] = 10_000
    with pytest.raises(StoreError, match=rf"^model {MODEL}: cannot download it: .*429") as caught:
        fetch()
    assert "\n" not in str(caught.value)


def test_a_dropped_connection_goes_on_where_it_was(served: Hub) -> None:
    served.drops["model.safetensors"] = 2
    assert (fetch().folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert served.downloads("model.safetensors") == 3


def test_a_hub_that_is_not_there_is_given_up(served: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{taken.getsockname()[1]}")
        said: list[str] = []
        with pytest.raises(StoreError, match=rf"^model {MODEL}: cannot download it: .*refused"):
            fetch(say=said.append)
    assert len(said) == len(hub.WAITS)


def test_files_that_cannot_be_reached_are_given_up(served: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    served.gone_after_listing = True
    with pytest.raises(StoreError, match=rf"^model {MODEL}: cannot download it: "):
        fetch()


@pytest.mark.parametrize("raised", [RuntimeError("the client has been closed"), AttributeError("'NoneType'")], ids=repr)
def test_threads_that_close_each_others_client_become_one(
    served: Hub, monkeypatch: pytest.MonkeyPatch, raised: Exception
) -> None:
    """What huggingface_hub 1.33 does where a connection is refused while it downloads eight files at once."""
    import huggingface_hub

    download, workers = huggingface_hub.snapshot_download, list[int]()  # pyright: ignore[reportUnknownVariableType]

    def racing(*arguments: Any, max_workers: int, **options: Any) -> Any:
        workers.append(max_workers)
        if max_workers > 1:
            raise raised
        return download(*arguments, max_workers=max_workers, **options)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", racing)
    assert fetch().version == COMMIT
    assert workers == [8, 1]


def test_offline_takes_what_is_there_and_asks_nobody(served: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fetch()
    asked = served.asked.total()
    _go_offline(monkeypatch)
    assert fetch("another").folder == first.folder
    assert served.asked.total() == asked


def test_offline_without_the_files_is_refused(served: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    _go_offline(monkeypatch)
    with pytest.raises(
        UsageError, match=rf"^model.name: found '{MODEL}', which is not whole below HF_HOME, .*; allowed: "
    ):
        fetch()
    assert served.asked.total() == 0


def _go_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants as constants

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def test_the_token_is_used_and_never_said(
    served: Hub, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    served.token = "hf_secret"
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setattr(time, "sleep", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    served.busy["main"] = 1
    fetch()
    assert "Bearer hf_secret" in served.tokens
    assert "hf_secret" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(("token", "whom"), [(None, "without HF_TOKEN"), ("hf_other", "to the HF_TOKEN of this run")])
def test_a_gated_model_is_one_line_at_once(
    served: Hub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    token: str | None,
    whom: str,
) -> None:
    """The whole program: nothing of Ray, torch or a GPU is touched before."""
    served.token = "hf_secret"
    if token is not None:
        monkeypatch.setenv("HF_TOKEN", token)
    words = [
        f"--model={MODEL}",
        "--storage-path=/x",
        "--run-name=r",
        "--num-nodes=2",
        "--gpus-per-node=4",
        "--network=efa",
    ]
    assert main(words) == 2
    assert capsys.readouterr().out.splitlines() == [
        f"train: model.name: found '{MODEL}', which is gated: the Hub refuses it {whom}; allowed: a model whose terms were accepted; "
        f"accept them at https://huggingface.co/{MODEL} and set HF_TOKEN, from a Secret, to a token of that account"
    ]


def test_a_private_model_is_not_called_gated(served: Hub) -> None:
    served.token, served.gated = "hf_secret", False
    with pytest.raises(
        UsageError, match=r"^model.name: found 'someone/tiny', which the Hub does not show without HF_TOKEN"
    ):
        fetch()


def test_a_model_that_is_not_there_is_refused(served: Hub) -> None:
    with pytest.raises(UsageError, match=r"^model.name: found 'someone/else', which the Hub does not show"):
        hub.fetch("someone/else", "main", run="run")


def test_a_revision_that_is_not_there_is_refused(served: Hub) -> None:
    with pytest.raises(UsageError, match=r"^model.revision: found 'v9', which someone/tiny has not; "):
        hub.fetch(MODEL, "v9", run="run")


def test_a_name_that_can_be_none_is_refused(served: Hub) -> None:
    with pytest.raises(
        UsageError, match=r"^model.name: found 'a/b/c/d'; allowed: a Hugging Face id, an absolute path or s3://"
    ):
        hub.fetch("a/b/c/d", "main", run="run")


def test_a_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    assert hub.fetch(str(tmp_path), "main", run="run") == hub.Source(tmp_path, "")


def test_a_folder_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^model.name: found /nowhere/model, which is no folder on this node; "):
        hub.fetch("/nowhere/model", "main", run="run")


def test_a_home_that_cannot_be_written_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", "/dev/null/hf")
    with pytest.raises(StoreError, match=r"^model someone/tiny: cannot write below HF_HOME, /dev/null/hf: "):
        fetch()


def test_a_download_waits_for_that_of_another_rank(served: Hub) -> None:
    """Threads of one process lock each other out too, as each opens the file."""
    found: list[hub.Source] = []
    threads = [threading.Thread(target=lambda: found.append(fetch())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert served.downloads("model.safetensors") == 1


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("HF_HOME", f"{tmp_path}/hf")
    with serving_aws() as local:
        client = connect(monkeypatch, local.endpoint)
        client.create_bucket(Bucket="models")
        for name, content in {**FILES, "original/model.safetensors": b"other"}.items():
            client.put_object(Bucket="models", Key=f"a/tiny/{name}", Body=content)
        yield client


def test_a_prefix_of_s3_is_downloaded_once(bucket: Any) -> None:
    first = hub.fetch("s3://models/a/tiny", "main", run="run")
    assert {path.name for path in first.folder.iterdir()} == FILES.keys() - {"pytorch_model.bin"}
    assert (first.folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    bucket.delete_object(Bucket="models", Key="a/tiny/config.json")
    assert hub.fetch("s3://models/a/tiny", "main", run="run") == first


def test_what_changed_in_s3_is_another_version(bucket: Any) -> None:
    first = hub.fetch("s3://models/a/tiny/", "main", run="run")
    bucket.put_object(Bucket="models", Key="a/tiny/config.json", Body=b"{}")
    second = hub.fetch("s3://models/a/tiny/", "main", run="another")
    assert first.version != second.version
    assert (second.folder / "config.json").read_bytes() == b"{}"


def test_a_prefix_without_a_model_is_refused(bucket: Any) -> None:
    with pytest.raises(UsageError, match=r"^model.name: found s3://models/a with 5 objects and no config.json; "):
        hub.fetch("s3://models/a", "main", run="run")


def test_a_bucket_that_is_not_there_is_said(bucket: Any) -> None:
    with pytest.raises(StoreError, match=r"^model s3://no-such-models/x: cannot download it: .*NoSuchBucket"):
        hub.fetch("s3://no-such-models/x", "main", run="run")
