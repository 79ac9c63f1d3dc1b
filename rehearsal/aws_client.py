"""boto3 clients of the local AWS."""

from __future__ import annotations

from typing import Any, Protocol, cast

import boto3
from botocore.config import Config


class _Session(Protocol):
    """A boto3 session, whose own types know a client only by a literal service name."""

    def client(self, service: str, /, *, endpoint_url: str, config: object) -> Any: ...


def aws_client(endpoint: str, region: str, service: str, *, read_timeout: int = 60) -> Any:
    """Return a client of `service` that reaches the local AWS at `endpoint`, tries once and never an account of the user's.

    `read_timeout`: seconds until an answer counts as none.
    """
    session = boto3.Session(aws_access_key_id="rehearsal", aws_secret_access_key="rehearsal", region_name=region)  # noqa: S106 -- no account has it
    config = Config(retries={"total_max_attempts": 1}, read_timeout=read_timeout, s3={"addressing_style": "path"})
    return cast(_Session, session).client(service, endpoint_url=endpoint, config=config)
