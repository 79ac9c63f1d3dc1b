"""The command `checkpoint export`: turn a checkpoint into a Hugging Face folder, without GPUs."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ..errors import UsageError
from ..events import say
from .folders import read, survey
from .manifest import PREFIX
from .store import Store, open_store


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see --help")


def main(arguments: Sequence[str]) -> int:
    """Run `export CHECKPOINT_URI OUT [--dtype TYPE]` and return the exit code.

    Raises:
        UsageError: the arguments are wrong, or there is no such checkpoint.
        StoreError: a store refuses, or the checkpoint is damaged.
    """
    parser = _Parser(prog="train checkpoint", description=__doc__, allow_abbrev=False)
    parser.add_argument("action", choices=("export",), help="write a folder that from_pretrained loads")
    parser.add_argument("checkpoint", metavar="CHECKPOINT_URI", help="s3://.../step-0000000010 or such a directory")
    parser.add_argument("out", metavar="OUT", help="s3://BUCKET/PREFIX or a directory for the model")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16", help="type of the weights")
    found = parser.parse_args(arguments)
    run, _, folder = str(found.checkpoint).rstrip("/").rpartition("/")
    if not folder.startswith(PREFIX) or not run:
        raise UsageError(
            f"CHECKPOINT_URI: found {found.checkpoint!r}; allowed: the folder of one checkpoint, .../{PREFIX}NUMBER"
            + _offered(_store(str(found.checkpoint).rstrip("/")))
        )
    source = _store(run)
    if not any(name.startswith(f"{folder}/") for name in source.sizes()):
        raise UsageError(
            f"CHECKPOINT_URI: found {found.checkpoint!r}, where nothing is; allowed: one that is there{_offered(source)}"
        )
    try:
        manifest = read(source, folder)
    except ValueError as error:
        raise UsageError(
            f"CHECKPOINT_URI: {found.checkpoint}: {error}; allowed: a whole one{_offered(source)}"
        ) from error
    # Imported here: wrong arguments are said before torch is loaded.
    from .export import export_checkpoint

    written = export_checkpoint(source, manifest, _store(str(found.out)), found.dtype)
    say(
        {
            "event": "export",
            "step": manifest.step,
            "uri": str(found.out),
            "num_files": len(written),
            "bytes": sum(file.bytes for file in written),
            "dtype": found.dtype,
        }
    )
    return 0


def _store(uri: str) -> Store:
    return open_store(uri if uri.startswith("s3://") else str(Path(uri).absolute()))


def _offered(store: Store) -> str:
    names = [manifest.folder for manifest in survey(store).complete]
    return f"; there: {', '.join(names)}" if names else ""
