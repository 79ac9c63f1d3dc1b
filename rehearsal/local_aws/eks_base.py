"""What the added EKS actions share: the request's parts, and errors as EKS words them."""

import json
import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from moto.core.responses import ActionResult
from moto.ec2.models import EC2Backend
from moto.eks.exceptions import EKSError, InvalidParameterException, ResourceNotFoundException
from moto.eks.models import Cluster
from moto.eks.responses import EKSResponse
from moto.moto_api._internal import mock_random

from .store import EksStore, Record, ec2_backend, eks_store

PATH = re.compile(r"/clusters/(?P<cluster>[^/]+)(?:/(?P<kind>[a-z-]+)(?:/(?P<rest>.+))?)?$")


class UnsupportedAvailabilityZoneError(EKSError):
    """EKS makes no control plane in a zone that was asked for."""

    TYPE = "UnsupportedAvailabilityZoneException"
    STATUS = 400


class EksAction(EKSResponse):
    """Base of the added EKS actions."""

    @property
    def payload(self) -> Record:
        """The request's JSON body; empty for a request without one."""
        return json.loads(self.body) if self.body else {}

    @property
    def store(self) -> EksStore:
        """The added EKS state of this account and Region."""
        return eks_store(self.current_account, self.region)

    @property
    def ec2(self) -> EC2Backend:
        """The EC2 of the same account and Region."""
        return ec2_backend(self.current_account, self.region)

    @property
    def path_parts(self) -> tuple[str, str]:
        """The cluster's name and what follows the resource kind in the path, both decoded."""
        match = PATH.search(self.parsed_url.path)
        if match is None:
            raise InvalidParameterException(message=f"no cluster in the path {self.parsed_url.path}")
        return unquote(match["cluster"]), unquote(match["rest"] or "")

    def cluster(self, name: str) -> Cluster:
        """Give a cluster, or refuse as EKS does when there is none of that name."""
        return self.eks_backend.describe_cluster(name=name)

    def arn(self, *parts: str) -> str:
        """Make an EKS ARN of this account and Region."""
        return f"arn:aws:eks:{self.region}:{self.current_account}:{'/'.join(parts)}"

    def updated(self, kind: str, params: Record, *, errors: list[Record] | None = None) -> ActionResult:
        """Keep a finished update, so that DescribeUpdate finds it, and answer with it."""
        update: Record = {
            "id": str(mock_random.uuid4()),
            "status": "Failed" if errors else "Successful",
            "type": kind,
            "params": [{"type": name, "value": json.dumps(value)} for name, value in params.items()],
            "createdAt": datetime.now(UTC),
            "errors": errors or [],
        }
        self.store.updates[update["id"]] = update
        return ActionResult({"update": update})

    def describe_update(self) -> ActionResult:
        """Describe an update of a cluster, node group or add-on."""
        _, update_id = self.path_parts
        if update_id not in self.store.updates:
            raise not_found(f"No update found for ID: {update_id}.")
        return ActionResult({"update": self.store.updates[update_id]})


def not_found(message: str) -> ResourceNotFoundException:
    """Say that something is not there."""
    return ResourceNotFoundException(message=message)


def pick(payload: dict[str, Any], *keys: str) -> Record:
    """Take the named members that the request has."""
    return {key: payload[key] for key in keys if payload.get(key) is not None}
