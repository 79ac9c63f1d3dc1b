"""A local S3, found as it is in a pod: by the environment alone."""

from collections.abc import Iterator
from typing import Any, Protocol, cast

import boto3
import pytest

from rehearsal.local_aws.server import serving


class S3(Protocol):
    """The part of a client of S3 that is used here."""

    def create_bucket(self, **arguments: Any) -> object: ...
    def put_object(self, **arguments: Any) -> object: ...


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with serving() as local:
        yield local.endpoint


def connect(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> S3:
    """Let boto3 find a local endpoint, and return a client of it."""
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    return cast(S3, boto3.client("s3"))  # pyright: ignore[reportUnknownMemberType]
