"""IAM role, inline policy and policy attachment."""

from __future__ import annotations

import json

from ..naming import Autoname
from ..values import Properties, Props, Value
from .kind import Call, Kind, Rule, as_tag_list, from_tag_list, void
from .tagging import changed_tags


def policy_text(value: Value) -> str:
    """Give a policy document as JSON text; pulumi-aws takes text or an object."""
    return value if isinstance(value, str) else json.dumps(value)


def policy_rule(prop: str) -> Rule:
    """Make the rule that `prop` is a JSON policy document with statements."""

    def rule(inputs: Props) -> list[tuple[str, str]]:
        document = inputs.get(prop)
        if not isinstance(document, str):
            return []
        try:
            parsed = json.loads(document)
        except ValueError as error:
            return [(prop, f"{prop} must be a policy document in JSON: {error}")]
        if not isinstance(parsed, dict) or "Statement" not in parsed:
            return [(prop, f"{prop} must be a policy document: an object with Statement")]
        return []

    return rule


def _create_role(call: Call) -> str:
    inputs = call.inputs
    name = inputs.text("name")
    call(
        "iam",
        "CreateRole",
        RoleName=name,
        AssumeRolePolicyDocument=policy_text(inputs.get("assumeRolePolicy")),
        Path=inputs.text("path", "/"),
        Description=inputs.text("description") or None,
        MaxSessionDuration=inputs.number("maxSessionDuration", 3600),
        PermissionsBoundary=inputs.text("permissionsBoundary") or None,
        Tags=as_tag_list(call.tags()) or None,
    )
    for arn in inputs.texts("managedPolicyArns"):
        call("iam", "AttachRolePolicy", RoleName=name, PolicyArn=arn)
    for policy in inputs.blocks("inlinePolicies"):
        call(
            "iam", "PutRolePolicy", RoleName=name, PolicyName=policy.text("name"), PolicyDocument=policy.text("policy")
        )
    return name


def _read_role(call: Call) -> Properties | None:
    role = call("iam", "GetRole", RoleName=call.id).block("Role")
    return {
        "arn": role.text("Arn"),
        "name": role.text("RoleName"),
        "namePrefix": "",
        "path": role.text("Path"),
        "description": role.text("Description") or None,
        "createDate": role.text("CreateDate"),
        "maxSessionDuration": role.number("MaxSessionDuration", 3600),
        "uniqueId": role.text("RoleId"),
        "managedPolicyArns": call.inputs.get("managedPolicyArns") or [],
        "inlinePolicies": call.inputs.get("inlinePolicies") or [],
        "tags": from_tag_list(role.blocks("Tags")),
    }


def _update_role(call: Call) -> None:
    if call.changed("assumeRolePolicy"):
        document = policy_text(call.inputs.get("assumeRolePolicy"))
        call("iam", "UpdateAssumeRolePolicy", RoleName=call.id, PolicyDocument=document)
    if call.changed("description", "maxSessionDuration"):
        call(
            "iam",
            "UpdateRole",
            RoleName=call.id,
            Description=call.inputs.text("description"),
            MaxSessionDuration=call.inputs.number("maxSessionDuration", 3600),
        )
    before, after = set(call.old.texts("managedPolicyArns")), set(call.inputs.texts("managedPolicyArns"))
    for arn in sorted(after - before):
        call("iam", "AttachRolePolicy", RoleName=call.id, PolicyArn=arn)
    for arn in sorted(before - after):
        call("iam", "DetachRolePolicy", RoleName=call.id, PolicyArn=arn)
    set_, removed = changed_tags(call)
    if removed:
        call("iam", "UntagRole", RoleName=call.id, TagKeys=removed)
    if set_:
        call("iam", "TagRole", RoleName=call.id, Tags=as_tag_list(set_))


def _delete_role(call: Call) -> None:
    for arn in call.state.texts("managedPolicyArns"):
        call("iam", "DetachRolePolicy", RoleName=call.id, PolicyArn=arn)
    for policy in call.state.blocks("inlinePolicies"):
        call("iam", "DeleteRolePolicy", RoleName=call.id, PolicyName=policy.text("name"))
    call("iam", "DeleteRole", RoleName=call.id)


ROLE = Kind(
    title="IAM Role",
    create=_create_role,
    read=_read_role,
    update=_update_role,
    delete=_delete_role,
    replace_on=("name", "namePrefix", "path"),
    sets=("managedPolicyArns",),
    autoname=Autoname(most=64),
    defaults={"forceDetachPolicies": False, "maxSessionDuration": 3600, "path": "/"},
    rules=(policy_rule("assumeRolePolicy"),),
    gone=("NoSuchEntity",),
)


def _put_role_policy(call: Call) -> str:
    role, name = call.inputs.text("role"), call.inputs.text("name")
    call("iam", "PutRolePolicy", RoleName=role, PolicyName=name, PolicyDocument=policy_text(call.inputs.get("policy")))
    return f"{role}:{name}"


def _read_role_policy(call: Call) -> Properties | None:
    role, _, name = call.id.partition(":")
    found = call("iam", "GetRolePolicy", RoleName=role, PolicyName=name)
    return {"role": role, "name": found.text("PolicyName"), "namePrefix": ""}


def _delete_role_policy(call: Call) -> None:
    role, _, name = call.id.partition(":")
    call("iam", "DeleteRolePolicy", RoleName=role, PolicyName=name)


ROLE_POLICY = Kind(
    title="IAM Role Policy",
    create=_put_role_policy,
    read=_read_role_policy,
    update=lambda call: drop(_put_role_policy(call)),
    delete=_delete_role_policy,
    replace_on=("name", "namePrefix", "role"),
    autoname=Autoname(),
    rules=(policy_rule("policy"),),
    gone=("NoSuchEntity",),
)


def _attach(call: Call) -> str:
    role, arn = call.inputs.text("role"), call.inputs.text("policyArn")
    call("iam", "AttachRolePolicy", RoleName=role, PolicyArn=arn)
    return f"{role}/{arn}"


def _attachment(call: Call) -> tuple[str, str]:
    role, _, arn = call.id.partition("/")
    return role, arn


def _read_attachment(call: Call) -> Properties | None:
    role, arn = _attachment(call)
    attached = call("iam", "ListAttachedRolePolicies", RoleName=role).blocks("AttachedPolicies")
    if arn not in [policy.text("PolicyArn") for policy in attached]:
        return None
    return {"role": role, "policyArn": arn}


def _detach(call: Call) -> None:
    role, arn = _attachment(call)
    void(call("iam", "DetachRolePolicy", RoleName=role, PolicyArn=arn))


ROLE_POLICY_ATTACHMENT = Kind(
    title="IAM Role Policy Attachment",
    create=_attach,
    read=_read_attachment,
    delete=_detach,
    replace_on=("policyArn", "role"),
    gone=("NoSuchEntity",),
)


def drop(_: str) -> None:
    """Drop an id that did not change."""
