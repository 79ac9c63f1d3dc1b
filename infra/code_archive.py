"""The training program as a content-addressed archive in the artifact bucket: an edit makes a new object and restarts no pod."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pulumi
import pulumi_aws as aws

from infra.storage import Storage
from infra.tags import Tagger

SKIPPED = {"__pycache__", ".pytest_cache", ".ruff_cache"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The files of a package, and one hash of names and contents."""

    root: Path
    files: tuple[Path, ...]
    sha256: str


def read_code(root: Path) -> Code:
    """Return the code below `root` (a Python package), in the order of its paths.

    Raises:
        FileNotFoundError: `root` holds no file.
    """
    files = tuple(
        sorted(
            path
            for path in root.rglob("*")
            if path.is_file() and not SKIPPED & set(path.parts) and path.suffix != ".pyc"
        )
    )
    if not files:
        raise FileNotFoundError(f"{root}: found no file; allowed: the training program; restore it")
    digest = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return Code(root=root, files=files, sha256=digest.hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeArchiveArgs:
    """The code and where it goes."""

    code: Code
    storage: Storage
    tag: Tagger


class CodeArchive(pulumi.ComponentResource):
    """A zip of the training program that Ray fetches as the job's working directory."""

    uri: pulumi.Output[str]

    def __init__(self, name: str, args: CodeArchiveArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("efa-ray-train:infra:CodeArchive", name, None, opts)
        code, package = args.code, args.code.root.name
        # Ray strips the single top-level folder of a fetched zip, so the package needs one around it.
        entries: dict[str, pulumi.Asset | pulumi.Archive] = {
            f"code/{package}/{path.relative_to(code.root).as_posix()}": pulumi.FileAsset(path) for path in code.files
        }
        archive = aws.s3.BucketObjectv2(
            name,
            bucket=args.storage.bucket_name,
            key=f"code/{code.sha256}.zip",
            source=pulumi.AssetArchive(entries),
            content_type="application/zip",
            tags=args.tag("code"),
            # A running job may still fetch the old archive on a restart: it goes with the bucket, not with the next edit.
            opts=pulumi.ResourceOptions(parent=self, depends_on=args.storage.ready, retain_on_delete=True),
        )
        self.uri = pulumi.Output.format("s3://{0}/{1}", archive.bucket, archive.key)
        self.register_outputs({"uri": self.uri})
