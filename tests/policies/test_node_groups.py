import pytest

from policies import tokens
from policies.node_groups import NodeGroup, has_efa, node_groups
from policies.values import UNKNOWN, Unknown, Value
from tests.policies.good_stack import Stack, good_stack


def gpu(stack: Stack) -> NodeGroup:
    return next(group for group in node_groups(stack.graph()) if group.resource.name == "gpu")


@pytest.mark.parametrize(
    ("kinds", "tag", "efa"),
    [
        (["interface", "efa-only"], None, True),
        (["efa"], "false", True),
        (["interface"], "true", False),
        ([UNKNOWN], None, UNKNOWN),
        ([UNKNOWN], "true", True),
        ([UNKNOWN], "false", False),
        (["interface", UNKNOWN], None, UNKNOWN),
        ([], "true", False),
    ],
)
def test_efa_is_read_from_the_template_then_from_the_record(
    kinds: list[Value], tag: str | None, efa: bool | Unknown
) -> None:
    stack = good_stack()
    stack.edit("template", "networkInterfaces", [{"interfaceType": kind} for kind in kinds])
    stack.edit("template", f"tags.{tokens.TAG_EFA}", tag)
    assert has_efa(stack.resources["template"]) is efa
    assert gpu(stack).efa is efa


@pytest.mark.parametrize(("tag", "efa"), [("true", True), ("false", False), (None, UNKNOWN)])
def test_efa_behind_a_hidden_template_is_what_was_recorded(tag: str | None, efa: bool | Unknown) -> None:
    stack = good_stack()
    stack.sources("gpu", launchTemplate=[])
    stack.edit("gpu", f"tags.{tokens.TAG_EFA}", tag)
    assert gpu(stack).efa is efa


def test_without_a_template_there_is_no_efa_and_nothing_hidden() -> None:
    stack = good_stack()
    stack.edit("gpu", "launchTemplate", None)
    stack.sources("gpu", launchTemplate=[])
    stack.edit("gpu", f"tags.{tokens.TAG_EFA}", None)
    assert (gpu(stack).efa, gpu(stack).hidden_template) == (False, False)


@pytest.mark.parametrize(
    ("type_", "gpus"),
    [
        ("g6.12xlarge", True),
        ("gr6.8xlarge", True),
        ("p6-b200.48xlarge", True),
        ("m7i.2xlarge", False),
        ("c7gn.16xlarge", False),
        (UNKNOWN, UNKNOWN),
    ],
)
def test_gpus_are_read_from_the_family(type_: Value, gpus: bool | Unknown) -> None:
    stack = good_stack()
    stack.edit("template", "instanceType", type_)
    stack.edit("gpu", f"tags.{tokens.TAG_ZONE}", None)
    assert gpu(stack).has_gpus is gpus


def test_a_recorded_zone_marks_a_group_of_gpus() -> None:
    stack = good_stack()
    stack.edit("template", "instanceType", UNKNOWN)
    assert gpu(stack).has_gpus is True


def test_two_candidate_templates_hide_each_other() -> None:
    stack = good_stack()
    stack.sources("gpu", launchTemplate=["template", "system-template"])
    assert (gpu(stack).template, gpu(stack).hidden_template) == (None, True)
