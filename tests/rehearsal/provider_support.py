"""Drive the `aws` stand-in as the engine does, without an engine."""

from dataclasses import dataclass, field
from typing import Any, NoReturn

import grpc
from pulumi.runtime.proto import provider_pb2, status_pb2

from rehearsal.providers.aws.api import Api
from rehearsal.providers.aws.servicer import AwsServicer
from rehearsal.providers.values import Properties, Props, Value, decode, encode

REGION = "us-east-2"


class Aborted(Exception):
    """What a servicer told the engine instead of an answer."""


@dataclass
class Context:
    """A call's context that raises where gRPC would end the call."""

    trailing: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])

    def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        assert code is not grpc.StatusCode.OK
        raise Aborted(details)

    def set_trailing_metadata(self, metadata: tuple[tuple[str, bytes], ...]) -> None:
        self.trailing.extend(metadata)


@dataclass
class Resource:
    """A resource in the state: what the engine keeps of it."""

    token: str
    name: str
    id: str
    inputs: Properties
    outputs: Properties

    def given(self, **changes: Value) -> Properties:
        """Give the inputs as a program gives them, with changes."""
        filled_in = ("__defaults", "tagsAll", *Props(self.inputs).texts("__defaults"))
        own = {name: value for name, value in self.inputs.items() if name not in filled_in}
        return {**own, **changes}


class Engine:
    """Asks the servicer in the engine's order."""

    def __init__(self, region: str = REGION) -> None:
        self.servicer = AwsServicer(Api())
        self.context: Any = Context()
        checked = self.servicer.CheckConfig(provider_pb2.CheckRequest(news=encode({"region": region})), self.context)
        assert not checked.failures
        self.servicer.Configure(provider_pb2.ConfigureRequest(args=checked.inputs), self.context)

    @staticmethod
    def urn(token: str, name: str) -> str:
        return f"urn:pulumi:dev::project::{token}::{name}"

    def check(
        self, token: str, name: str, inputs: Properties, olds: Properties | None = None
    ) -> tuple[Properties, dict[str, str]]:
        request = provider_pb2.CheckRequest(
            urn=self.urn(token, name), news=encode(inputs), olds=encode(olds or {}), randomSeed=name.encode()
        )
        answer = self.servicer.Check(request, self.context)
        return decode(answer.inputs), {failure.property: failure.reason for failure in answer.failures}

    def checked(self, token: str, name: str, inputs: Properties, olds: Properties | None = None) -> Properties:
        found, failures = self.check(token, name, inputs, olds)
        assert failures == {}
        return found

    def preview(self, token: str, name: str, inputs: Properties) -> Properties:
        request = provider_pb2.CreateRequest(
            urn=self.urn(token, name), properties=encode(self.checked(token, name, inputs)), preview=True
        )
        return decode(self.servicer.Create(request, self.context).properties)

    def create(self, token: str, name: str, inputs: Properties) -> Resource:
        checked = self.checked(token, name, inputs)
        request = provider_pb2.CreateRequest(urn=self.urn(token, name), properties=encode(checked))
        made = self.servicer.Create(request, self.context)
        return Resource(token, name, made.id, checked, decode(made.properties))

    def diff(self, resource: Resource, inputs: Properties) -> provider_pb2.DiffResponse:
        checked = self.checked(resource.token, resource.name, inputs, resource.inputs)
        request = provider_pb2.DiffRequest(
            id=resource.id,
            urn=self.urn(resource.token, resource.name),
            olds=encode(resource.outputs),
            old_inputs=encode(resource.inputs),
            news=encode(checked),
        )
        return self.servicer.Diff(request, self.context)

    def update(self, resource: Resource, inputs: Properties, *, preview: bool = False) -> Resource:
        checked = self.checked(resource.token, resource.name, inputs, resource.inputs)
        request = provider_pb2.UpdateRequest(
            id=resource.id,
            urn=self.urn(resource.token, resource.name),
            olds=encode(resource.outputs),
            old_inputs=encode(resource.inputs),
            news=encode(checked),
            preview=preview,
        )
        after = decode(self.servicer.Update(request, self.context).properties)
        return Resource(resource.token, resource.name, resource.id, checked, after)

    def read(self, resource: Resource) -> Resource | None:
        request = provider_pb2.ReadRequest(
            id=resource.id,
            urn=self.urn(resource.token, resource.name),
            properties=encode(resource.outputs),
            inputs=encode(resource.inputs),
        )
        found = self.servicer.Read(request, self.context)
        if not found.id:
            return None
        return Resource(resource.token, resource.name, found.id, decode(found.inputs), decode(found.properties))

    def delete(self, resource: Resource) -> None:
        request = provider_pb2.DeleteRequest(
            id=resource.id,
            urn=self.urn(resource.token, resource.name),
            properties=encode(resource.outputs),
            old_inputs=encode(resource.inputs),
        )
        self.servicer.Delete(request, self.context)

    def invoke(self, token: str, arguments: Properties | None = None) -> Properties:
        request = provider_pb2.InvokeRequest(tok=token, args=encode(arguments or {}))
        return decode(getattr(self.servicer.Invoke(request, self.context), "return"))

    def half_made(self) -> provider_pb2.ErrorResourceInitFailed:
        """Give what the servicer told of a resource that exists but is not ready."""
        status = status_pb2.Status.FromString(dict(self.context.trailing)["grpc-status-details-bin"])
        detail = provider_pb2.ErrorResourceInitFailed()
        assert status.details[0].Unpack(detail)
        return detail
