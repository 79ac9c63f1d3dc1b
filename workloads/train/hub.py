"""The files of a model on this node: a folder, a Hugging Face id or an S3 prefix. One download a node, whoever asks first.

The Hub counts requests by address, and all nodes of a private network share one: 64 ranks that ask for themselves are refused with 429
(https://github.com/allenai/open-instruct/pull/1528). Ranks of a node hold a lock one after the other; the first downloads and leaves a
note for the run's name, the others read it and ask nobody.
"""

import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from .errors import StoreError, TrainingError, UsageError
from .failures import one_line

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")

CONFIG = ("config.json",)
"""All that is needed to plan, and to find out that a model is refused."""
WITHOUT_WEIGHTS = ("*.json", "*.model", "*.txt", "*.jinja")
"""Configuration and tokenizer."""
EVERYTHING = (*WITHOUT_WEIGHTS, "*.safetensors")
"""Weights too; not the same ones in other formats."""
WAITS = (1, 2, 4, 8, 16, 32, 64, 64, 64, 64)
"""Seconds between tries: five minutes in all, which is the Hub's window for counting requests."""
WORKERS = 8
"""Files that are asked for at once."""
_BUSY = (408, 429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model's files are on this node."""

    folder: Path
    version: str
    """Commit of the Hub, or a hash of the listing of a prefix; of a folder, nothing. Alike on all nodes of a run."""


def fetch(
    name: str, revision: str, *, run: str, patterns: Sequence[str] = EVERYTHING, say: Callable[[str], None] = print
) -> Source:
    """Return the files of a model, downloading them where no other rank of this node did.

    The environment is the Hub's own: HF_HOME (where to), HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE. Needs no process group.

    Raises:
        UsageError: there is no such model, or it is not for whoever has this token.
        StoreError: the Hub or S3 could not be read, after all tries.
    """
    if name.startswith("/"):
        if not Path(name).is_dir():
            raise UsageError(
                f"model.name: found {name}, which is no folder on this node; allowed: one with config.json"
            )
        return Source(Path(name), "")
    if name.startswith("s3://"):
        return _once(name, revision, run, patterns, lambda: _from_s3(name, patterns))
    return _once(name, revision, run, patterns, lambda: _from_hub(name, revision, patterns, say))


def _home() -> Path:
    # As huggingface_hub has it, which takes a second to import.
    return Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface").expanduser()


def _once(name: str, revision: str, run: str, patterns: Sequence[str], download: Callable[[], Source]) -> Source:
    key = hashlib.sha256("\n".join([name, revision, run, *patterns]).encode()).hexdigest()[:32]
    try:
        folder = _home() / "train-models"
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / f"{key}.lock"):
            note = folder / f"{key}.done"
            if note.exists():
                where, _, version = note.read_text(encoding="utf-8").partition("\n")
                if Path(where).is_dir():
                    return Source(Path(where), version)
            found = download()
            unfinished = note.with_suffix(".unfinished")
            unfinished.write_text(f"{found.folder}\n{found.version}", encoding="utf-8")
            unfinished.replace(note)
            return found
    except OSError as error:
        raise StoreError(f"model {name}: cannot write below HF_HOME, {_home()}: {one_line(error)}") from error


@contextmanager
def _locked(path: Path) -> Generator[None]:
    """Hold a lock of this node; it ends with the process, however that ends."""
    with path.open("w") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield


def _from_hub(name: str, revision: str, patterns: Sequence[str], say: Callable[[str], None]) -> Source:
    # Imported here: most models are not downloaded by most ranks.
    from huggingface_hub import snapshot_download  # pyright: ignore[reportUnknownVariableType]
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()

    def download(workers: int) -> Source:
        folder = Path(
            snapshot_download(
                name,
                revision=revision,
                allow_patterns=list(patterns),
                endpoint=os.environ.get("HF_ENDPOINT"),
                token=os.environ.get("HF_TOKEN"),
                max_workers=workers,
            )
        )
        return Source(folder, folder.name)

    return _patiently(name, revision, download, say)


def _patiently(name: str, revision: str, do: Callable[[int], T], say: Callable[[str], None]) -> T:
    """Try again while the Hub is busy or the connection drops; it goes on where a file was cut off.

    `do` gets how many files to ask for at once: after a failure one. In huggingface_hub 1.33 a thread that cannot connect closes the
    client of all, and the others then raise RuntimeError or AttributeError.
    """
    import httpx
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    for number, wait in enumerate((*WAITS, None)):
        try:
            return do(WORKERS if number == 0 else 1)
        except (RuntimeError, AttributeError) as error:
            if number or wait is None:
                raise
            say(f"model {name}: {_without_token(error)}; next try in {wait:g} s, one file after the other")
            time.sleep(wait)
        except HFValidationError as error:
            raise UsageError(
                f"model.name: found {name!r}; allowed: a Hugging Face id, an absolute path or s3://BUCKET/PREFIX; "
                f"{_without_token(error)}"
            ) from error
        except GatedRepoError as error:
            raise UsageError(_gated(name)) from error
        except RevisionNotFoundError as error:
            raise UsageError(
                f"model.revision: found {revision!r}, which {name} has not; allowed: a branch, tag or commit of it; correct it"
            ) from error
        except RepositoryNotFoundError as error:
            raise UsageError(
                f"model.name: found {name!r}, which the Hub does not show {_whom()}; allowed: an id that is there; "
                "correct it, or set HF_TOKEN to a token that may read it"
            ) from error
        except (HfHubHTTPError, LocalEntryNotFoundError, httpx.TransportError, OfflineModeIsEnabled) as error:
            cause = _root(error)
            if isinstance(cause, OfflineModeIsEnabled) or os.environ.get("HF_HUB_OFFLINE") in ("1", "true", "True"):
                raise UsageError(
                    f"model.name: found {name!r}, which is not whole below HF_HOME, {_home()}, and HF_HUB_OFFLINE forbids to ask the Hub; "
                    "allowed: a model that was downloaded before; download it, or unset HF_HUB_OFFLINE"
                ) from error
            if isinstance(cause, HfHubHTTPError) and cause.response.status_code in (401, 403):
                raise UsageError(_gated(name)) from error
            permanent = isinstance(cause, HfHubHTTPError) and cause.response.status_code not in _BUSY
            if permanent or wait is None:
                raise StoreError(f"model {name}: cannot download it: {_without_token(cause)}") from error
            seconds = max(wait, _retry_after(cause))
            say(f"model {name}: {_without_token(cause)}; next try in {seconds:g} s")
            time.sleep(seconds)
    raise AssertionError("the last try returns or raises")


def _root(error: BaseException) -> BaseException:
    """Return what the Hub or the connection said: "not in the cache" is what the library makes of it."""
    while (
        type(error).__name__ in ("LocalEntryNotFoundError", "IncompleteSnapshotError") and error.__cause__ is not None
    ):
        error = error.__cause__
    return error


def _retry_after(error: BaseException) -> float:
    response = getattr(error, "response", None)
    said = response.headers.get("Retry-After", "") if response is not None else ""
    return min(float(said), 300.0) if said.isascii() and said.isdigit() else 0.0


def _gated(name: str) -> str:
    return (
        f"model.name: found {name!r}, which is gated: the Hub refuses it {_whom()}; allowed: a model whose terms were accepted; "
        f"accept them at https://huggingface.co/{name} and set HF_TOKEN, from a Secret, to a token of that account"
    )


def _whom() -> str:
    return "to the HF_TOKEN of this run" if os.environ.get("HF_TOKEN") else "without HF_TOKEN"


def _without_token(error: BaseException) -> str:
    """Return an error in one line, without the token should it be in there."""
    token = os.environ.get("HF_TOKEN")
    text = one_line(f"{type(error).__name__}: {error}")
    return text.replace(token, "HF_TOKEN") if token else text


def _from_s3(uri: str, patterns: Sequence[str]) -> Source:
    # Imported here: a model of the Hub needs none of it.
    import boto3
    from boto3.exceptions import Boto3Error
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    config = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 8})
    try:
        client: S3Client = boto3.client("s3", config=config)  # pyright: ignore[reportUnknownMemberType]
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        entries = [entry for page in pages for entry in page.get("Contents", [])]
        wanted = {
            entry["Key"].removeprefix(prefix): entry  # pyright: ignore[reportTypedDictNotRequiredAccess]
            for entry in entries
            if any(Path(entry["Key"]).match(pattern) for pattern in patterns)  # pyright: ignore[reportTypedDictNotRequiredAccess]
        }
        # Folders below hold other formats of the same model.
        wanted = {key: entry for key, entry in wanted.items() if "/" not in key}
        if "config.json" not in wanted:
            raise UsageError(
                f"model.name: found {uri} with {len(entries)} objects and no config.json; allowed: a prefix with the files of "
                "save_pretrained; correct it"
            )
        listing = "\n".join(f"{key} {wanted[key].get('ETag')} {wanted[key].get('Size')}" for key in sorted(wanted))
        version = hashlib.sha256(listing.encode()).hexdigest()
        folder = _home() / "train-models" / version[:32]
        folder.mkdir(parents=True, exist_ok=True)
        for key, entry in wanted.items():
            if not (folder / key).exists():
                unfinished = folder / f"{key}.unfinished"
                client.download_file(bucket, prefix + key, str(unfinished))
                if unfinished.stat().st_size != entry.get("Size"):
                    raise TrainingError(f"model {uri}: {key} changed while it was downloaded; start again")
                unfinished.replace(folder / key)
    except (Boto3Error, BotoCoreError, ClientError) as error:
        raise StoreError(f"model {uri}: cannot download it: {one_line(error)}") from error
    return Source(folder, version)
