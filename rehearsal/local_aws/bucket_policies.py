"""Bucket policies: moto reads a statement without its Condition, so that `deny what does not come over TLS` denies everything."""

import json
from typing import Any, cast

from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.models import FakeBucket


def permission(self: FakeBucket, action: str, resource: str) -> PermissionResult:
    """Judge an action by the statements without a Condition; the others are not evaluated."""
    if self.policy is None:
        return PermissionResult.NEUTRAL
    policy: dict[str, Any] = json.loads(self.policy)
    found: Any = policy["Statement"]
    statements = cast(list[dict[str, Any]], found if isinstance(found, list) else [found])
    judged = [statement for statement in statements if "Condition" not in statement]
    if not judged:
        return PermissionResult.NEUTRAL
    return IAMPolicy(json.dumps({**policy, "Statement": judged})).is_action_permitted(action, resource)


def install() -> None:
    """Put the judgement in place: S3 has one bucket class, and its policy is asked nowhere else."""
    FakeBucket.get_permission = permission
