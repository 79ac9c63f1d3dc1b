"""KMS key and alias."""

from __future__ import annotations

from ..naming import Autoname
from ..values import Properties, Props
from .iam import policy_rule, policy_text
from .kind import Call, Kind, void
from .tagging import changed_tags


def _tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"TagKey": key, "TagValue": value} for key, value in tags.items()]


def _create_key(call: Call) -> str:
    inputs = call.inputs
    made = call(
        "kms",
        "CreateKey",
        Description=inputs.text("description"),
        KeyUsage=inputs.text("keyUsage", "ENCRYPT_DECRYPT"),
        KeySpec=inputs.text("customerMasterKeySpec", "SYMMETRIC_DEFAULT"),
        MultiRegion=inputs.flag("multiRegion"),
        Policy=policy_text(inputs.get("policy")) if "policy" in inputs else None,
        Tags=_tag_list(call.tags()) or None,
    )
    key_id = made.text("KeyMetadata.KeyId")
    if inputs.flag("enableKeyRotation"):
        call("kms", "EnableKeyRotation", KeyId=key_id, RotationPeriodInDays=inputs.number("rotationPeriodInDays", 365))
    return key_id


def _read_key(call: Call) -> Properties | None:
    key = call("kms", "DescribeKey", KeyId=call.id).block("KeyMetadata")
    if key.text("KeyState") in ("PendingDeletion", ""):
        return None
    tags = {
        tag.text("TagKey"): tag.text("TagValue")
        for tag in call("kms", "ListResourceTags", KeyId=call.id).blocks("Tags")
    }
    return {
        "arn": key.text("Arn"),
        "keyId": key.text("KeyId"),
        "description": key.text("Description"),
        "multiRegion": key.flag("MultiRegion"),
        "enableKeyRotation": call("kms", "GetKeyRotationStatus", KeyId=call.id).flag("KeyRotationEnabled"),
        "rotationPeriodInDays": call.inputs.number(
            "rotationPeriodInDays", 365 if call.inputs.flag("enableKeyRotation") else 0
        ),
        "policy": call("kms", "GetKeyPolicy", KeyId=call.id, PolicyName="default").text("Policy"),
        "tags": {**tags} or None,
    }


def _update_key(call: Call) -> None:
    inputs = call.inputs
    if call.changed("description"):
        call("kms", "UpdateKeyDescription", KeyId=call.id, Description=inputs.text("description"))
    if call.changed("policy"):
        call("kms", "PutKeyPolicy", KeyId=call.id, PolicyName="default", Policy=policy_text(inputs.get("policy")))
    if call.changed("enableKeyRotation", "rotationPeriodInDays"):
        if inputs.flag("enableKeyRotation"):
            call(
                "kms",
                "EnableKeyRotation",
                KeyId=call.id,
                RotationPeriodInDays=inputs.number("rotationPeriodInDays", 365),
            )
        else:
            call("kms", "DisableKeyRotation", KeyId=call.id)
    if call.changed("isEnabled"):
        call("kms", "EnableKey" if inputs.flag("isEnabled", default=True) else "DisableKey", KeyId=call.id)
    set_, removed = changed_tags(call)
    if removed:
        call("kms", "UntagResource", KeyId=call.id, TagKeys=removed)
    if set_:
        call("kms", "TagResource", KeyId=call.id, Tags=_tag_list(set_))


def _delete_key(call: Call) -> None:
    days = call.state.number("deletionWindowInDays", 30)
    call("kms", "ScheduleKeyDeletion", KeyId=call.id, PendingWindowInDays=days)


def _key_values(inputs: Props) -> list[tuple[str, str]]:
    problems: list[tuple[str, str]] = []
    for name, least, most in (("deletionWindowInDays", 7, 30), ("rotationPeriodInDays", 90, 2560)):
        found = inputs.get(name)
        if isinstance(found, int) and not least <= found <= most:
            problems.append((name, f"{name} must be {least} to {most}, found {found}"))
    return problems


KEY = Kind(
    title="KMS Key",
    create=_create_key,
    read=_read_key,
    update=_update_key,
    delete=_delete_key,
    replace_on=("customKeyStoreId", "customerMasterKeySpec", "keyUsage", "multiRegion", "xksKeyId"),
    defaults={
        "bypassPolicyLockoutSafetyCheck": False,
        "customerMasterKeySpec": "SYMMETRIC_DEFAULT",
        "enableKeyRotation": False,
        "isEnabled": True,
        "keyUsage": "ENCRYPT_DECRYPT",
    },
    rules=(policy_rule("policy"), _key_values),
    gone=("NotFoundException",),
)


def _create_alias(call: Call) -> str:
    name = call.inputs.text("name")
    call("kms", "CreateAlias", AliasName=name, TargetKeyId=call.inputs.text("targetKeyId"))
    return name


def _read_alias(call: Call) -> Properties | None:
    for alias in call("kms", "ListAliases").blocks("Aliases"):
        if alias.text("AliasName") == call.id:
            target = alias.text("TargetKeyId")
            return {
                "arn": alias.text("AliasArn"),
                "name": call.id,
                "namePrefix": "",
                "targetKeyArn": call("kms", "DescribeKey", KeyId=target).text("KeyMetadata.Arn"),
            }
    return None


def _update_alias(call: Call) -> None:
    call("kms", "UpdateAlias", AliasName=call.id, TargetKeyId=call.inputs.text("targetKeyId"))


def _alias_name(inputs: Props) -> list[tuple[str, str]]:
    name = inputs.text("name", "alias/x")
    if not name.startswith("alias/") or name.startswith("alias/aws/"):
        return [("name", f"name must begin with alias/ and not with alias/aws/, found {name!r}")]
    return []


ALIAS = Kind(
    title="KMS Alias",
    create=_create_alias,
    read=_read_alias,
    update=_update_alias,
    delete=lambda call: void(call("kms", "DeleteAlias", AliasName=call.id)),
    replace_on=("name", "namePrefix"),
    autoname=Autoname(prefix="alias/"),
    rules=(_alias_name,),
    gone=("NotFoundException",),
)
