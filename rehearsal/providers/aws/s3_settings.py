"""The settings of a bucket that pulumi-aws keeps as resources of their own; each has the bucket's name as its id."""

from __future__ import annotations

from collections.abc import Callable

from ..values import Properties, Props, Value
from .iam import policy_rule, policy_text
from .kind import Call, Kind, Rule, pascal, void

_RENAMED = {"kmsMasterKeyId": "KMSMasterKeyID", "sseAlgorithm": "SSEAlgorithm", "id": "ID"}


OWNED = ("bucket", "expectedBucketOwner")


def _api(value: Value) -> object:
    """Give a block in the API's names."""
    if isinstance(value, dict):
        return {_RENAMED.get(name, pascal(name)): _api(item) for name, item in value.items() if name != "__defaults"}
    if isinstance(value, list):
        return [_api(item) for item in value]
    return value


def _setting(
    title: str,
    *,
    put: Callable[[Call], object],
    get: str,
    delete: Callable[[Call], object] | None,
    gone: tuple[str, ...],
    rules: tuple[Rule, ...] = (),
    replace_on: tuple[str, ...] = ("bucket",),
    live: Callable[[Props], Properties] = lambda _: {},
) -> Kind:
    """Make the Kind of a setting; `live` reads from the API's answer what somebody else may have changed."""

    def create(call: Call) -> str:
        put(call)
        return call.inputs.text("bucket")

    def read(call: Call) -> Properties | None:
        return {"bucket": call.id, **live(call("s3", get, Bucket=call.id))}

    def remove(call: Call) -> None:
        if delete is not None:
            delete(call)

    return Kind(
        title=title,
        create=create,
        read=read,
        update=lambda call: void(Props({"done": put(call) is not None})),
        delete=remove,
        replace_on=replace_on,
        rules=rules,
        gone=("NoSuchBucket", *gone),
    )


def _one_of(path: str, allowed: tuple[str, ...]) -> Rule:
    def rule(inputs: Props) -> list[tuple[str, str]]:
        found = inputs.text(path)
        return (
            [(path, f"{path} must be {', '.join(allowed)}, found {found!r}")] if found and found not in allowed else []
        )

    return rule


def _algorithms(inputs: Props) -> list[tuple[str, str]]:
    allowed = ("AES256", "aws:kms", "aws:kms:dsse", "aws:fsx", "aws:backup")
    path = "applyServerSideEncryptionByDefault.sseAlgorithm"
    return [
        (f"rules[{index}].{path}", f"rules[{index}].{path} must be {', '.join(allowed)}, found {rule.text(path)!r}")
        for index, rule in enumerate(inputs.blocks("rules"))
        if rule.text(path) and rule.text(path) not in allowed
    ]


def _suspend(call: Call) -> None:
    # A versioned bucket can only be suspended, never made unversioned again.
    call("s3", "PutBucketVersioning", Bucket=call.id, VersioningConfiguration={"Status": "Suspended"})


BUCKET_VERSIONING = _setting(
    "S3 Bucket Versioning",
    put=lambda call: call(
        "s3",
        "PutBucketVersioning",
        Bucket=call.inputs.text("bucket"),
        VersioningConfiguration={"Status": call.inputs.text("versioningConfiguration.status")},
    ),
    get="GetBucketVersioning",
    delete=_suspend,
    gone=(),
    replace_on=OWNED,
    live=lambda found: {"versioningConfiguration": {"status": found.text("Status", "Disabled")}},
    rules=(_one_of("versioningConfiguration.status", ("Disabled", "Enabled", "Suspended")),),
)

BUCKET_ENCRYPTION = _setting(
    "S3 Bucket Server-side Encryption Configuration",
    put=lambda call: call(
        "s3",
        "PutBucketEncryption",
        Bucket=call.inputs.text("bucket"),
        ServerSideEncryptionConfiguration={"Rules": [_encryption_rule(rule) for rule in call.inputs.blocks("rules")]},
    ),
    get="GetBucketEncryption",
    delete=lambda call: call("s3", "DeleteBucketEncryption", Bucket=call.id),
    gone=("ServerSideEncryptionConfigurationNotFoundError",),
    replace_on=OWNED,
    rules=(_algorithms,),
)


def _encryption_rule(rule: Props) -> dict[str, object]:
    default = rule.get("applyServerSideEncryptionByDefault")
    return {"ApplyServerSideEncryptionByDefault": _api(default), "BucketKeyEnabled": rule.flag("bucketKeyEnabled")}


_BLOCKS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")

BUCKET_PUBLIC_ACCESS_BLOCK = _setting(
    "S3 Bucket Public Access Block",
    put=lambda call: call(
        "s3",
        "PutPublicAccessBlock",
        Bucket=call.inputs.text("bucket"),
        PublicAccessBlockConfiguration={pascal(name): call.inputs.flag(name) for name in _BLOCKS},
    ),
    get="GetPublicAccessBlock",
    delete=lambda call: call("s3", "DeletePublicAccessBlock", Bucket=call.id),
    gone=("NoSuchPublicAccessBlockConfiguration",),
    live=lambda found: {name: found.flag(f"PublicAccessBlockConfiguration.{pascal(name)}") for name in _BLOCKS},
)

BUCKET_OWNERSHIP_CONTROLS = _setting(
    "S3 Bucket Ownership Controls",
    put=lambda call: call(
        "s3",
        "PutBucketOwnershipControls",
        Bucket=call.inputs.text("bucket"),
        OwnershipControls={"Rules": [{"ObjectOwnership": call.inputs.text("rule.objectOwnership")}]},
    ),
    get="GetBucketOwnershipControls",
    delete=lambda call: call("s3", "DeleteBucketOwnershipControls", Bucket=call.id),
    gone=("OwnershipControlsNotFoundError",),
    live=lambda found: {"rule": {"objectOwnership": found.text("OwnershipControls.Rules.0.ObjectOwnership")}},
    rules=(_one_of("rule.objectOwnership", ("BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter")),),
)

BUCKET_POLICY = _setting(
    "S3 Bucket Policy",
    put=lambda call: call(
        "s3", "PutBucketPolicy", Bucket=call.inputs.text("bucket"), Policy=policy_text(call.inputs.get("policy"))
    ),
    get="GetBucketPolicy",
    delete=lambda call: call("s3", "DeleteBucketPolicy", Bucket=call.id),
    gone=("NoSuchBucketPolicy",),
    live=lambda found: {"policy": found.text("Policy")},
    rules=(policy_rule("policy"),),
)


def _lifecycle_rule(rule: Props) -> object:
    filtered = {name: value for name, value in rule.block("filter").values.items() if name != "__defaults"}
    # The API wants a filter; an empty prefix is all objects.
    return _api({**rule.values, "filter": filtered or {"prefix": ""}})


def _lifecycle_values(inputs: Props) -> list[tuple[str, str]]:
    problems: list[tuple[str, str]] = []
    for index, rule in enumerate(inputs.blocks("rules")):
        if rule.text("status") and rule.text("status") not in ("Enabled", "Disabled"):
            problems.append(
                (
                    f"rules[{index}].status",
                    f"rules[{index}].status must be Enabled or Disabled, found {rule.text('status')!r}",
                )
            )
    return problems


BUCKET_LIFECYCLE = _setting(
    "S3 Bucket Lifecycle Configuration",
    put=lambda call: call(
        "s3",
        "PutBucketLifecycleConfiguration",
        Bucket=call.inputs.text("bucket"),
        LifecycleConfiguration={"Rules": [_lifecycle_rule(rule) for rule in call.inputs.blocks("rules")]},
    ),
    get="GetBucketLifecycleConfiguration",
    delete=lambda call: call("s3", "DeleteBucketLifecycle", Bucket=call.id),
    gone=("NoSuchLifecycleConfiguration",),
    replace_on=OWNED,
    rules=(_lifecycle_values,),
)
