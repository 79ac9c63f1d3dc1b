"""Identity: pods cannot take the credentials of their node."""

from collections.abc import Iterator

from policies import tokens
from policies.graph import Resource
from policies.rules import Finding, ResourceRule, not_checked, violation
from policies.values import UNKNOWN, at, number, show


def check_imds(template: Resource) -> Iterator[Finding]:
    """Check that a launch template wants IMDSv2 and answers over one network hop only."""
    if template.type != tokens.LAUNCH_TEMPLATE:
        return
    wanted = "httpTokens required and httpPutResponseHopLimit 1"
    names = (
        f"httpTokens {{}} in launch template {template.name}",
        f"httpPutResponseHopLimit {{}} in launch template {template.name}",
    )
    found = (
        at(template.props, "metadataOptions", "httpTokens"),
        at(template.props, "metadataOptions", "httpPutResponseHopLimit"),
    )
    good = (found[0] == "required", number(found[1]) == 1)
    why = (
        "IMDSv1 answers any request, a forged one included",
        "a second hop lets a pod take the node's credentials, and Amazon Linux 2023 allows two unless told",
    )
    for value, right, name, reason in zip(found, good, names, why, strict=True):
        if value is UNKNOWN:
            yield not_checked(template, "metadataOptions", then=wanted)
        elif not right:
            yield violation(
                template,
                name.format(show(value)),
                allowed=wanted,
                why=reason,
                fix=f"set metadataOptions to {wanted}; give pods their rights by Pod Identity",
            )


RULES = (
    ResourceRule(
        id="imds-v2",
        what="Every launch template requires IMDSv2 with a hop limit of 1.",
        why="Pods then get rights by Pod Identity alone, not those of their node.",
        fix="`httpTokens: required`, `httpPutResponseHopLimit: 1`.",
        check=check_imds,
    ),
)
