"""Changing the tags of what exists; at creation each type hands them over in its own way."""

from __future__ import annotations

from .kind import Call, as_tag_list


def retag_ec2(call: Call) -> None:
    """Make an EC2 resource's tags those of the inputs; its id is the call's."""
    retag_ec2_id(call, call.id)


def retag_ec2_id(call: Call, resource_id: str) -> None:
    """Make the tags of the EC2 resource `resource_id` those of the inputs."""
    set_, removed = changed_tags(call)
    if removed:
        call("ec2", "DeleteTags", Resources=[resource_id], Tags=[{"Key": key} for key in removed])
    if set_:
        call("ec2", "CreateTags", Resources=[resource_id], Tags=as_tag_list(set_))


def retag_arn(call: Call, service: str, arn: str, *, argument: str = "resourceArn") -> None:
    """Make the tags of a resource whose API tags by ARN those of the inputs."""
    set_, removed = changed_tags(call)
    if removed:
        call(service, "UntagResource", **{argument: arn, "tagKeys": removed})
    if set_:
        call(service, "TagResource", **{argument: arn, "tags": set_})


def changed_tags(call: Call) -> tuple[dict[str, str], list[str]]:
    """Tell which tags an update sets, and which it removes."""
    before, after = call.old.mapping("tags"), call.tags()
    set_ = {key: value for key, value in after.items() if before.get(key) != value}
    return set_, sorted(set(before) - set(after))
