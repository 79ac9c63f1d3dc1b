"""Errors of the AWS API in the words of pulumi-aws, and how they travel to the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import grpc
from google.protobuf import any_pb2
from pulumi.runtime.proto import provider_pb2, status_pb2

from .values import Properties, encode

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

_SDK_NAMES = {
    "ec2": "EC2",
    "eks": "EKS",
    "iam": "IAM",
    "kms": "KMS",
    "s3": "S3",
    "logs": "CloudWatch Logs",
    "fsx": "FSx",
    "sts": "STS",
}
# EC2 and S3 answer with codes that the SDK has no types for; it words those as `api error`.
_UNTYPED = frozenset({"ec2", "s3"})


class ApiError(Exception):
    """A refusal of the AWS API, worded as the AWS SDK for Go does: what pulumi-aws shows."""

    def __init__(self, service: str, operation: str, error: ClientError) -> None:
        details = error.response.get("Error", {})
        metadata = error.response.get("ResponseMetadata", {})
        self.code = str(details.get("Code", ""))
        self.message = str(details.get("Message", ""))
        code = f"api error {self.code}" if service in _UNTYPED else self.code
        super().__init__(
            f"operation error {_SDK_NAMES.get(service, service)}: {operation}, https response error StatusCode: "
            f"{metadata.get('HTTPStatusCode', 0)}, RequestID: {metadata.get('RequestId', '')}, {code}: {self.message}"
        )


class OperationError(Exception):
    """An operation that did not succeed; the text is what the user reads."""


class PartlyCreatedError(OperationError):
    """A resource that exists but did not get ready: it is kept in the state, so that a later run can mend or delete it."""

    def __init__(self, reason: str, resource_id: str, outputs: Properties, inputs: Properties) -> None:
        super().__init__(reason)
        self.reason = reason
        self.resource_id = resource_id
        self.outputs = outputs
        self.inputs = inputs


def abort(context: grpc.ServicerContext, error: OperationError) -> NoReturn:
    """End a call with an error; never returns."""
    if isinstance(error, PartlyCreatedError):
        detail = provider_pb2.ErrorResourceInitFailed(
            id=error.resource_id, properties=encode(error.outputs), inputs=encode(error.inputs), reasons=[error.reason]
        )
        packed = any_pb2.Any()
        packed.Pack(detail)
        status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=error.reason, details=[packed])
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(grpc.StatusCode.UNKNOWN, str(error))
    raise AssertionError("abort raises")
