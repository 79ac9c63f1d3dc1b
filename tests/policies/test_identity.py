import pytest

from policies.values import UNKNOWN, Value
from tests.policies.good_stack import found, good_stack, said

FIX = "fix: set metadataOptions to httpTokens required and httpPutResponseHopLimit 1; give pods their rights by Pod Identity"
WANTED = "allowed: httpTokens required and httpPutResponseHopLimit 1"


@pytest.mark.parametrize("template", ["template", "system-template"])
@pytest.mark.parametrize(("value", "word"), [("optional", '"optional"'), (None, "nothing")])
def test_imds_v1_is_refused(template: str, value: Value, word: str) -> None:
    stack = good_stack()
    stack.edit(template, "metadataOptions.httpTokens", value)
    assert said(stack) == found(
        "imds-v2",
        template,
        f"found httpTokens {word} in launch template {template}; {WANTED}; "
        f"why: IMDSv1 answers any request, a forged one included; {FIX}",
    )


@pytest.mark.parametrize(("value", "word"), [(2, "2"), (None, "nothing")])
def test_a_second_hop_is_refused(value: Value, word: str) -> None:
    stack = good_stack()
    stack.edit("template", "metadataOptions.httpPutResponseHopLimit", value)
    assert said(stack) == found(
        "imds-v2",
        "template",
        f"found httpPutResponseHopLimit {word} in launch template template; {WANTED}; "
        f"why: a second hop lets a pod take the node's credentials, and Amazon Linux 2023 allows two unless told; {FIX}",
    )


def test_a_template_without_metadata_options_fails_on_both() -> None:
    stack = good_stack()
    stack.edit("template", "metadataOptions", None)
    assert [(s.rule, s.level) for s in said(stack)] == [("imds-v2", "violation")] * 2


def test_unknown_metadata_options_are_not_checked() -> None:
    stack = good_stack()
    stack.edit("template", "metadataOptions.httpTokens", UNKNOWN)
    assert [(s.rule, s.level, s.message) for s in said(stack)] == [
        (
            "imds-v2",
            "not-checked",
            "not checked yet: metadataOptions is known only at up; "
            "then checked: httpTokens required and httpPutResponseHopLimit 1",
        )
    ]
