"""Storage that every node shares, and what points at it."""

import re
from collections.abc import Iterator

from settings.fields import Settings
from settings.problems import Problem
from settings.rules.rule import reads

FSX_MOUNT = "/fsx"
S3_PATH = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[\w!.*'()/-]*)?")


@reads("storage_path", "fsx_capacity_gib")
def storage_path(settings: Settings) -> Iterator[Problem]:
    """Checkpoints go where every worker can read and write them, and where they outlive the pods."""
    path, fsx = settings.job.storage_path, settings.storage.fsx_capacity_gib
    on_fsx = path == FSX_MOUNT or path.startswith(FSX_MOUNT + "/")
    if on_fsx and not fsx:
        yield Problem(
            key="storagePath",
            found=f"{path!r}, with fsxCapacityGib 0",
            allowed="a path under /fsx only with a file system",
            fix="pulumi config set fsxCapacityGib 1200, or remove storagePath to use the stack's bucket",
        )
    elif path and not on_fsx and not S3_PATH.fullmatch(path):
        yield Problem(
            key="storagePath",
            found=repr(path),
            allowed="empty for the stack's bucket, s3://BUCKET/PREFIX or /fsx/PATH: a node's own disk is not shared",
            fix="pulumi config rm storagePath",
        )


@reads("fsx_capacity_gib")
def fsx_capacity(settings: Settings) -> Iterator[Problem]:
    """FSx for Lustre comes in steps (SCRATCH_2: 1200 GiB or a multiple of 2400 GiB; CreateFileSystem, StorageCapacity)."""
    capacity = settings.storage.fsx_capacity_gib
    if capacity and capacity != 1200 and capacity % 2400:
        yield Problem(
            key="fsxCapacityGib",
            found=str(capacity),
            allowed="0, 1200 or a multiple of 2400",
            fix="pulumi config set fsxCapacityGib 1200",
        )


@reads("chart_source")
def chart_source(settings: Settings) -> Iterator[Problem]:
    """Charts come from a place that Helm can read."""
    source = settings.charts.chart_source
    if source != "upstream" and not source.startswith(("oci://", "/", "./", "../")):
        yield Problem(
            key="chartSource",
            found=repr(source),
            allowed="upstream, a directory (/..., ./...) or oci://REGISTRY/PREFIX",
            fix="pulumi config rm chartSource for the charts' own repositories",
        )


RULES = (storage_path, fsx_capacity, chart_source)
