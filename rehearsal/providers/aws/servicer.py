"""The gRPC service of the `aws` stand-in."""

# ruff: noqa: N802, ARG002 -- the protocol gives the methods their names and arguments

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from .. import checking
from ..diffing import Change, changes
from ..errors import ApiError, OperationError, PartlyCreatedError, abort
from ..sdk_schema import resource_schema, sdk_version
from ..values import Properties, Props, decode, encode
from . import inputs, outputs
from .api import Api
from .inputs import token_and_name
from .invokes import Question, answer
from .kind import Call, Kind
from .kinds import kind_of

T = TypeVar("T")
_KINDS = provider_pb2.PropertyDiff
_DIFFS = {
    ("add", False): _KINDS.ADD,
    ("add", True): _KINDS.ADD_REPLACE,
    ("delete", False): _KINDS.DELETE,
    ("delete", True): _KINDS.DELETE_REPLACE,
    ("update", False): _KINDS.UPDATE,
    ("update", True): _KINDS.UPDATE_REPLACE,
}


class AwsServicer(provider_pb2_grpc.ResourceProviderServicer):
    """Answers the engine in the place of pulumi-resource-aws."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._region = ""

    def GetPluginInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        """Say which version this stands in for."""
        return plugin_pb2.PluginInfo(version=sdk_version("aws"))

    def GetSchema(
        self, request: provider_pb2.GetSchemaRequest, context: grpc.ServicerContext
    ) -> provider_pb2.GetSchemaResponse:
        """Give the least schema there is: programs bring their SDK along."""
        return provider_pb2.GetSchemaResponse(schema=json.dumps({"name": "aws", "version": sdk_version("aws")}))

    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        """Go on: what is under way ends in order, and the engine ends this process when it has seen that end."""
        return empty_pb2.Empty()

    def CheckConfig(
        self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CheckResponse:
        """Check the provider's configuration: unknown keys, and a Region that exists."""
        return self._guarded(context, lambda: inputs.check_config(decode(request.news)))

    def DiffConfig(self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext) -> provider_pb2.DiffResponse:
        """Compare configurations: a change is taken over in place."""
        changed = decode(request.olds) != decode(request.news)
        return provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE
        )

    def Configure(
        self, request: provider_pb2.ConfigureRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConfigureResponse:
        """Take the configuration; nothing is started yet."""
        self._region = Props(decode(request.args)).text("region") or request.variables.get("aws:config:region", "")
        return provider_pb2.ConfigureResponse(
            acceptSecrets=False,
            supportsPreview=True,
            acceptResources=False,
            acceptOutputs=False,
            supports_autonaming_configuration=True,
        )

    def Invoke(self, request: provider_pb2.InvokeRequest, context: grpc.ServicerContext) -> provider_pb2.InvokeResponse:
        """Answer a function of pulumi-aws."""

        def run() -> provider_pb2.InvokeResponse:
            arguments = Props(decode(request.args))
            region = arguments.text("region") or self._region
            found = answer(request.tok, Question(api=self._api, region=region, arguments=arguments))
            response = provider_pb2.InvokeResponse()
            # `return` is a keyword of Python.
            getattr(response, "return").CopyFrom(encode(found))
            return response

        return self._guarded(context, run)

    def Check(self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext) -> provider_pb2.CheckResponse:
        """Check the inputs of a resource and fill in what pulumi-aws fills in."""
        return self._guarded(context, lambda: inputs.check(request, self._region))

    def Diff(self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext) -> provider_pb2.DiffResponse:
        """Tell what changed and whether it replaces."""
        return self._guarded(context, lambda: self._diff(request))

    def _diff(self, request: provider_pb2.DiffRequest) -> provider_pb2.DiffResponse:
        token, _ = token_and_name(request.urn)
        kind = kind_of(token)
        old, new = decode(request.old_inputs) or decode(request.olds), decode(request.news)
        replace_on = (*kind.replace_on, "region")
        found = changes(old, new, replace_on=replace_on, sets=kind.sets)
        if kind.update is None:
            found = [Change(change.path, change.kind, replaces=change.path != "tagsAll") for change in found]
        replaces = [change.path for change in found if change.replaces]
        return provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME if found else provider_pb2.DiffResponse.DIFF_NONE,
            replaces=replaces,
            deleteBeforeReplace=bool(replaces) and _name_stays(kind, old, new),
            diffs=sorted({change.path.split(".")[0].split("[")[0] for change in found}),
            hasDetailedDiff=True,
            detailedDiff={
                change.path: provider_pb2.PropertyDiff(kind=_DIFFS[change.kind, change.replaces], inputDiff=True)
                for change in found
            },
        )

    def Create(self, request: provider_pb2.CreateRequest, context: grpc.ServicerContext) -> provider_pb2.CreateResponse:
        """Make a resource, or foretell what making it would give."""

        def run() -> provider_pb2.CreateResponse:
            token, name = token_and_name(request.urn)
            inputs = decode(request.properties)
            if request.preview:
                return provider_pb2.CreateResponse(properties=encode(outputs.previewed(inputs, resource_schema(token))))
            kind = kind_of(token)
            call = self._call(inputs)
            made = self._worded(kind, "creating", name, lambda: kind.create(call))
            after = self._call(inputs, resource_id=made)
            live = self._worded(kind, "reading", made, lambda: kind.read(after)) or {}
            found = outputs.combined(inputs, live)
            problem = kind.unready(after) if kind.unready is not None else None
            if problem is not None:
                raise PartlyCreatedError(problem, made, found, inputs)
            return provider_pb2.CreateResponse(id=made, properties=encode(found))

        return self._guarded(context, run)

    def Read(self, request: provider_pb2.ReadRequest, context: grpc.ServicerContext) -> provider_pb2.ReadResponse:
        """Read a resource for a refresh or an import; one that is gone has no id."""

        def run() -> provider_pb2.ReadResponse:
            token, _ = token_and_name(request.urn)
            kind, schema = kind_of(token), resource_schema(token)
            state, inputs = decode(request.properties), decode(request.inputs)
            call = self._call(inputs or state, resource_id=request.id, state=state)
            try:
                live = kind.read(call)
            except ApiError as error:
                if error.code not in kind.gone:
                    raise OperationError(f"reading {kind.title} ({request.id}): {error}") from error
                live = None
            if live is None:
                return provider_pb2.ReadResponse()
            after = outputs.refreshed(inputs, live, kind) if inputs else outputs.imported(live, schema)
            return provider_pb2.ReadResponse(
                id=request.id, properties=encode(outputs.combined({**state, **after}, live)), inputs=encode(after)
            )

        return self._guarded(context, run)

    def Update(self, request: provider_pb2.UpdateRequest, context: grpc.ServicerContext) -> provider_pb2.UpdateResponse:
        """Change a resource in place, or foretell what that would give."""

        def run() -> provider_pb2.UpdateResponse:
            token, _ = token_and_name(request.urn)
            kind = kind_of(token)
            state, new = decode(request.olds), decode(request.news)
            old = decode(request.old_inputs) or state
            if request.preview:
                return provider_pb2.UpdateResponse(properties=encode(outputs.previewed_update(kind, state, new, old)))
            call = self._call(new, resource_id=request.id, old=old, state=state)
            update = kind.update
            if update is not None and changes(old, new, replace_on=(), sets=kind.sets):
                self._worded(kind, "updating", request.id, lambda: update(call))
            live = self._worded(kind, "reading", request.id, lambda: kind.read(call)) or {}
            return provider_pb2.UpdateResponse(properties=encode(outputs.combined(new, live)))

        return self._guarded(context, run)

    def Delete(self, request: provider_pb2.DeleteRequest, context: grpc.ServicerContext) -> empty_pb2.Empty:
        """Delete a resource; one that is gone already is deleted."""

        def run() -> empty_pb2.Empty:
            token, _ = token_and_name(request.urn)
            kind = kind_of(token)
            state = decode(request.properties)
            call = self._call(decode(request.old_inputs) or state, resource_id=request.id, state=state)
            try:
                kind.delete(call)
            except ApiError as error:
                if error.code not in kind.gone:
                    raise OperationError(f"deleting {kind.title} ({request.id}): {error}") from error
            return empty_pb2.Empty()

        return self._guarded(context, run)

    def _call(
        self,
        inputs: Properties,
        *,
        resource_id: str = "",
        old: Properties | None = None,
        state: Properties | None = None,
    ) -> Call:
        region = Props(inputs).text("region") or Props(state or {}).text("region") or self._region
        return Call(
            api=self._api,
            region=region,
            inputs=Props(inputs),
            id=resource_id,
            old=Props(old or {}),
            state=Props(state or {}),
        )

    @staticmethod
    def _worded(kind: Kind, verb: str, name: str, operation: Callable[[], T]) -> T:
        try:
            return operation()
        except ApiError as error:
            raise OperationError(f"{verb} {kind.title} ({name}): {error}") from error

    @staticmethod
    def _guarded(context: grpc.ServicerContext, run: Callable[[], T]) -> T:
        try:
            return run()
        except OperationError as error:
            abort(context, error)
        except LookupError as error:
            abort(context, OperationError(str(error.args[0]) if error.args else str(error)))


def _name_stays(kind: Kind, old: Properties, new: Properties) -> bool:
    """Tell whether a replacement would meet its own name: pulumi-aws then deletes first, as a name of the user's stays."""
    if kind.autoname is None:
        return False
    prop = kind.autoname.property
    defaulted = Props(new).texts(checking.DEFAULTS)
    return prop not in defaulted and new.get(prop) is not None and old.get(prop) == new.get(prop)
