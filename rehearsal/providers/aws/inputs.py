"""A resource's inputs and the provider's configuration: checked, with what pulumi-aws fills in."""

from __future__ import annotations

import os

from pulumi.runtime.proto import provider_pb2

from rehearsal.local_aws import catalog

from .. import checking
from ..naming import physical_name
from ..sdk_schema import resource_schema
from ..values import Properties, Props, decode, encode
from .kind import Kind
from .kinds import kind_of

REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")


def check_config(news: Properties) -> provider_pb2.CheckResponse:
    """Check the configuration of the provider: unknown keys, and a Region that exists; the environment may give the Region."""
    schema = resource_schema("aws:index/provider:Provider").inputs
    failures = [
        provider_pb2.CheckFailure(property=name, reason=f"aws: {checking.unknown_name(name, schema)}")
        for name in news
        if name not in schema and name not in ("version", "pluginDownloadURL")
    ]
    region = news.get("region") or next((os.environ[name] for name in REGION_VARIABLES if os.environ.get(name)), None)
    if region is None:
        failures.append(
            provider_pb2.CheckFailure(
                property="region",
                reason="aws:region is missing; set it (`pulumi config set aws:region us-east-2`) or AWS_REGION",
            )
        )
    elif isinstance(region, str):
        try:
            catalog.zones(region)
        except LookupError as error:
            failures.append(
                provider_pb2.CheckFailure(
                    property="region", reason=f"aws:region: {error}; name an AWS Region, such as us-east-2"
                )
            )
    return provider_pb2.CheckResponse(inputs=encode({**news, "region": region}), failures=failures)


def check(request: provider_pb2.CheckRequest, region: str) -> provider_pb2.CheckResponse:
    """Check the inputs of a resource, and fill in name, defaults, Region and tagsAll as pulumi-aws does.

    Raises:
        LookupError: the stand-in has no such type.
    """
    token, name = token_and_name(request.urn)
    kind, schema = kind_of(token), resource_schema(token)
    checked, problems = checking.check(decode(request.news), schema.inputs, f"{token} {name}")
    defaulted: list[str] = []

    def fill(prop: str, value: object) -> None:
        if prop not in checked and value is not None:
            checked[prop] = value  # pyright: ignore[reportArgumentType]
            defaulted.append(prop)

    if kind.autoname is not None and "namePrefix" not in checked:
        fill(kind.autoname.property, _name(kind, request, name))
    for prop, value in kind.defaults.items():
        fill(prop, value)
    if "region" in schema.inputs:
        fill("region", region)
    if "tagsAll" in schema.outputs:
        checked["tagsAll"] = checked.get("tags") or {}
    if not problems:
        problems = [
            checking.Problem(path, f"{token} {name}: {reason}")
            for rule in kind.rules
            for path, reason in rule(Props(checked))
        ]
    return provider_pb2.CheckResponse(
        inputs=encode({**checked, checking.DEFAULTS: [*sorted(defaulted)]}),
        failures=[provider_pb2.CheckFailure(property=problem.path, reason=problem.reason) for problem in problems],
    )


def _name(kind: Kind, request: provider_pb2.CheckRequest, logical: str) -> str | None:
    rule = kind.autoname
    if rule is None:
        return None
    kept = Props(decode(request.olds)).text(rule.property)
    if kept:
        # A resource keeps the name that it has.
        return kept
    if request.HasField("autonaming"):
        modes = provider_pb2.CheckRequest.AutonamingOptions
        if request.autonaming.mode == modes.DISABLE:
            return None
        if request.autonaming.mode in (modes.ENFORCE, modes.PROPOSE):
            return request.autonaming.proposed_name
    return physical_name(rule, logical, request.randomSeed or os.urandom(16))


def token_and_name(urn: str) -> tuple[str, str]:
    """Take the type and the logical name from a URN: urn:pulumi:STACK::PROJECT::PARENT$TYPE::NAME."""
    _, _, qualified, name = urn.split("::", 3)
    return qualified.split("$")[-1], name
