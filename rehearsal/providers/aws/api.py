"""The one way to the AWS API: a local one, never Amazon's."""

from __future__ import annotations

import os
import threading
from typing import cast
from urllib.parse import urlsplit

from ..errors import ApiError, OperationError
from ..values import Props, to_value

ENDPOINT = "EFA_RAY_TRAIN_AWS_ENDPOINT"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


Answer = dict[str, object]


class Api:
    """Calls AWS operations at the endpoint of EFA_RAY_TRAIN_AWS_ENDPOINT, or in a moto of this process when there is none.

    Nothing is imported or started before the first call: a preview makes none.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[tuple[str, str], object] = {}
        self._endpoint = ""

    @property
    def standing(self) -> bool:
        """Whether a local AWS runs beside this process; without one, everything is forgotten when the process ends."""
        return bool(os.environ.get(ENDPOINT))

    def call(self, service: str, operation: str, region: str, **arguments: object) -> Props:
        """Call an operation by its API name, such as CreateVpc; arguments that are None are left out.

        Raises:
            ApiError: the API refused.
            OperationError: the endpoint is not on loopback, or does not answer.
        """
        from botocore import xform_name
        from botocore.exceptions import ClientError, EndpointConnectionError, ParamValidationError

        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            answer = cast(Answer, getattr(self._client(service, region), xform_name(operation))(**given))
        except ClientError as error:
            raise ApiError(service, operation, error) from error
        except ParamValidationError as error:
            raise OperationError(f"{service} {operation}: {error}") from error
        except EndpointConnectionError as error:
            raise OperationError(
                f"{ENDPOINT}: nothing answers at {self._endpoint}; start the local AWS or unset it"
            ) from error
        answer.pop("ResponseMetadata", None)
        return Props({key: to_value(item) for key, item in answer.items() if not hasattr(item, "read")})

    def _client(self, service: str, region: str) -> object:
        with self._lock:
            if (service, region) not in self._clients:
                self._clients[service, region] = self._connect(service, region)
            return self._clients[service, region]

    def _connect(self, service: str, region: str) -> object:
        from rehearsal.aws_client import aws_client

        if not self._endpoint:
            self._endpoint = self._find_endpoint()
        return aws_client(self._endpoint, region, service)

    def _find_endpoint(self) -> str:
        given = os.environ.get(ENDPOINT)
        if not given:
            from rehearsal.local_aws.server import LocalAws

            return LocalAws().endpoint
        host = urlsplit(given).hostname
        if host not in LOOPBACK:
            raise OperationError(
                f"{ENDPOINT}: found {given}, allowed is a local AWS on {', '.join(sorted(LOOPBACK))}; a rehearsal never leaves this machine"
            )
        return given
