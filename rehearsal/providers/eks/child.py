"""Children of a component: resources by their type token, without the SDK that has classes for them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import pulumi

from ..sdk_schema import resource_schema, sdk_version

Inputs = Mapping[str, Any]
"""Inputs of a resource by their names in the schema; values may be outputs."""


class Child(pulumi.CustomResource):
    """A resource of pulumi-aws with the outputs that its schema has."""

    def __init__(self, token: str, name: str, inputs: Inputs, options: pulumi.ResourceOptions) -> None:
        given = {key: value for key, value in inputs.items() if value is not None}
        names = [output for output in resource_schema(token).outputs if output not in given]
        version = pulumi.ResourceOptions(version=sdk_version("aws"))
        super().__init__(token, name, {**dict.fromkeys(names), **given}, pulumi.ResourceOptions.merge(options, version))

    def output(self, name: str) -> pulumi.Output[Any]:
        """Give an output by its name in the schema."""
        return output_of(self, name)


def output_of(resource: pulumi.Resource, name: str) -> pulumi.Output[Any]:
    """Give an output of a resource; the SDK keeps outputs of a resource without a class in its __dict__."""
    found: Any = vars(resource).get(name)
    return pulumi.Output.from_input(found)


def merged_tags(name: str, *more: Any) -> pulumi.Output[dict[str, str]]:
    """Merge tags as pulumi-eks does: a Name of its own first, so that later ones win."""
    given: list[Any] = [tags or {} for tags in more]
    return pulumi.Output.all(*given).apply(
        lambda found: {"Name": name, **{key: value for tags in found for key, value in tags.items()}}
    )


class ServiceRole(pulumi.ComponentResource):
    """The role of an AWS service with managed policies: a component of pulumi-eks."""

    def __init__(
        self,
        name: str,
        *,
        service: str,
        description: str | None,
        policies: list[tuple[str, pulumi.Output[str]]],
        tags: Any,
        actions: list[str],
        options: pulumi.ResourceOptions,
    ) -> None:
        inputs = {
            "service": service,
            "description": description,
            "managedPolicyArns": [{"id": policy, "arn": arn} for policy, arn in policies],
            "tags": tags,
            "assumeRoleActions": actions,
        }
        super().__init__("eks:index:ServiceRole", name, inputs, options)
        child = pulumi.ResourceOptions(parent=self)
        trust: dict[str, object] = {
            "Version": "2012-10-17",
            "Statement": [{"Action": actions, "Effect": "Allow", "Principal": {"Service": [service]}}],
        }
        document = pulumi.Output.json_dumps(trust, separators=(",", ":"))
        self.role = Child(
            "aws:iam/role:Role",
            f"{name}-role",
            {"description": description, "assumeRolePolicy": document, "tags": tags},
            child,
        )
        self.attachments = [
            # pulumi-eks names an attachment by the first eight digits of its policy's SHA-1.
            Child(
                "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
                f"{name}-{hashlib.sha1(policy.encode(), usedforsecurity=False).hexdigest()[:8]}",
                {"policyArn": arn, "role": self.role.id},
                child,
            )
            for policy, arn in policies
        ]
        self.register_outputs({})
