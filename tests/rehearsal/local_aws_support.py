"""Clients of a local AWS for tests."""

import json
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from rehearsal.local_aws.catalog import ACCOUNT
from rehearsal.local_aws.server import serving

REGION = "us-east-2"
ROLE = "arn:aws:iam::123456789012:role/node"
CONFIG = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})

_ACCOUNTS = count(1)
"""Accounts of all tests in this process: every local AWS that they serve in it shares moto's memory."""


class Aws:
    """boto3 clients of one local AWS, and what tests need again and again."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.account = 0
        self._clients: dict[tuple[str, str], Any] = {}

    @property
    def ec2(self) -> Any:
        return self.client("ec2")

    @property
    def eks(self) -> Any:
        return self.client("eks")

    def client(self, service: str, region: str = REGION) -> Any:
        if (service, region) not in self._clients:
            session: Any = boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name=region)
            client = session.client(service, endpoint_url=self.endpoint, config=CONFIG)
            client.meta.events.register("before-sign", self._sign)
            self._clients[service, region] = client
        return self._clients[service, region]

    def without_account(self, service: str, key: str = "nobody") -> Any:
        """Give a client as programs have it: it names no account, so its access key decides; no secret is looked at."""
        session: Any = boto3.Session(aws_access_key_id=key, aws_secret_access_key="test", region_name=REGION)
        return session.client(service, endpoint_url=self.endpoint, config=CONFIG)

    def fresh(self) -> "Aws":
        """Go on in an account that nobody used yet."""
        self.account = next(_ACCOUNTS)
        return self

    def _sign(self, request: Any, **_: Any) -> None:
        # moto's own header for tests of several accounts.
        request.headers["x-moto-account-id"] = f"{self.account:012}"

    def reset(self) -> None:
        """Forget every account, as a local AWS does that starts in a process of its own."""
        request = urllib.request.Request(f"{self.endpoint}/moto-api/reset", method="POST")
        urllib.request.urlopen(request).close()

    def network(self, zones: str = "ab") -> tuple[str, list[str]]:
        """Make a VPC with a subnet per zone letter."""
        vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnets = [
            self.ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{index}.0/24", AvailabilityZone=f"{REGION}{zone}")[
                "Subnet"
            ]["SubnetId"]
            for index, zone in enumerate(zones)
        ]
        return vpc, subnets

    def cluster(self, subnets: list[str], **more: Any) -> dict[str, Any]:
        return self.eks.create_cluster(
            name="train",
            roleArn=ROLE,
            resourcesVpcConfig={"subnetIds": subnets[:2]},
            accessConfig={"authenticationMode": "API"},
            **more,
        )["cluster"]

    def template(self, **data: Any) -> str:
        given = {"InstanceType": "g6.12xlarge", **data}
        made = self.ec2.create_launch_template(LaunchTemplateName="gpu", LaunchTemplateData=given)
        return made["LaunchTemplate"]["LaunchTemplateId"]

    def node_group(
        self, subnets: list[str], template: str | None = None, name: str = "gpu", **more: Any
    ) -> dict[str, Any]:
        if template is not None:
            more["launchTemplate"] = {"id": template, "version": "1"}
        sizes = {"minSize": 0, "desiredSize": 2, "maxSize": 4}
        arguments = {"scalingConfig": sizes, **more}
        return self.eks.create_nodegroup(
            clusterName="train", nodegroupName=name, subnets=subnets, nodeRole=ROLE, **arguments
        )["nodegroup"]

    def running(self) -> list[dict[str, Any]]:
        reservations = self.ec2.describe_instances()["Reservations"]
        found = [instance for reservation in reservations for instance in reservation["Instances"]]
        return [instance for instance in found if instance["State"]["Name"] == "running"]


@contextmanager
def empty_aws() -> Generator[Aws]:
    """Serve a local AWS with nothing in it, in the account of callers without one.

    Those callers are the stand-ins: they all meet in that account, where tests that ran before in this process may have left something.
    """
    with serving() as local:
        server = Aws(local.endpoint)
        server.account = int(ACCOUNT)
        server.reset()
        yield server


def refused(call: Any, code: str, *words: str) -> str:
    """Expect the API to refuse with a code, in a message that has these words."""
    with pytest.raises(ClientError) as caught:
        call()
    error: Any = caught.value.response.get("Error", {})
    assert error["Code"] == code
    for word in words:
        assert word in error["Message"]
    return error["Message"]


def set_faults(path: Path, monkeypatch: pytest.MonkeyPatch, *faults: dict[str, Any]) -> None:
    path.write_text(json.dumps({"faults": list(faults)}), encoding="utf-8")
    monkeypatch.setenv("EFA_RAY_TRAIN_FAULTS", str(path))
