"""What a finished run leaves: the model as a folder that transformers loads."""

from pathlib import Path
from tempfile import TemporaryDirectory

from .checkpoint.export import export_module
from .checkpoint.store import open_store
from .prepare import Prepared


def export(prepared: Prepared) -> str | None:
    """Write the model beside the run's checkpoints and return where it is; None where the run leaves none. All ranks call it.

    Raises:
        StoreError: on all ranks, when it cannot be written.
    """
    settings = prepared.config.checkpoint
    if settings.export is None:
        return None
    store = open_store(f"{prepared.config.run.storage_uri}/export")
    with TemporaryDirectory(prefix="train-model-", dir=settings.local_path) as scratch:
        files: dict[str, Path] = {}
        for name, content in prepared.files.items():
            files[name] = content if isinstance(content, Path) else Path(scratch) / name
            if isinstance(content, bytes):
                files[name].write_bytes(content)
        export_module(prepared.module, files, store, settings.export, settings.local_path)
    return store.uri
