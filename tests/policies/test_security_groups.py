import pytest

from policies import tokens
from policies.security_groups import Direction, opens_to_itself
from policies.values import UNKNOWN, Unknown, Value
from tests.policies.good_stack import Stack

WAYS: list[Direction] = ["ingress", "egress"]


def groups(*, at_preview: bool = True) -> Stack:
    stack = Stack(at_preview=at_preview)
    stack.add("efa", tokens.SECURITY_GROUP, {})
    stack.add("other", tokens.SECURITY_GROUP, {})
    return stack


def judged(stack: Stack) -> list[bool | Unknown]:
    graph = stack.graph()
    return [opens_to_itself(graph, stack.resources["efa"], way) for way in WAYS]


def older(stack: Stack, *, of: str = "efa", source: str | None = None, **props: Value) -> None:
    sources = {"securityGroupId": of} | ({"sourceSecurityGroupId": source} if source else {})
    stack.add(
        "rule",
        tokens.SECURITY_GROUP_RULE,
        {key: stack.id(name) for key, name in sources.items()} | {"protocol": "-1"} | props,
        **sources,
    )


@pytest.mark.parametrize("at_preview", [True, False])
def test_an_older_rule_counts_for_its_own_direction_and_group(at_preview: bool) -> None:
    stack = groups(at_preview=at_preview)
    older(stack, type="ingress", self=True)
    assert judged(stack) == [True, False]
    older(stack, type="egress", self=True)
    assert judged(stack) == [False, True]
    older(stack, type="ingress", source="efa")
    assert judged(stack) == [True, False]
    older(stack, type="ingress", source="other")
    assert judged(stack) == [False, False]
    older(stack, of="other", type="ingress", self=True)
    assert judged(stack) == [False, False]
    older(stack, of="other", type="ingress", source="efa")
    assert judged(stack) == [False, False]


@pytest.mark.parametrize(("protocol", "answer"), [("tcp", False), (UNKNOWN, UNKNOWN), (-1, True), ("all", True)])
def test_only_all_protocols_count(protocol: Value, answer: bool | Unknown) -> None:
    stack = groups()
    older(stack, type="ingress", self=True, protocol=protocol)
    assert judged(stack) == [answer, False]


def test_an_older_rule_that_may_name_the_group_is_unknown() -> None:
    stack = groups()
    older(stack, type="egress", self=UNKNOWN)
    assert judged(stack) == [False, UNKNOWN]


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        ({"protocol": "-1", "self": True}, True),
        ({"protocol": "-1", "self": "true"}, True),
        ({"protocol": "tcp", "self": True}, False),
        ({"protocol": "-1", "self": UNKNOWN}, UNKNOWN),
        ({"protocol": "-1", "securityGroups": ["id-efa"]}, True),
        ({"protocol": "-1", "securityGroups": ["id-other"]}, False),
        ({"protocol": "-1", "cidrBlocks": ["0.0.0.0/0"]}, False),
        (UNKNOWN, UNKNOWN),
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_a_rule_inside_the_group_counts_for_its_direction(way: Direction, rule: Value, answer: bool | Unknown) -> None:
    stack = groups(at_preview=False)
    stack.edit("efa", way, [rule])
    assert judged(stack) == ([answer, False] if way == "ingress" else [False, answer])


def test_a_group_without_an_id_matches_no_list_of_ids() -> None:
    stack = groups()
    stack.edit("efa", "ingress", [{"protocol": "-1", "securityGroups": ["id-efa"]}])
    assert judged(stack) == [False, False]


def test_one_certain_rule_outweighs_an_unknown_one() -> None:
    stack = groups()
    stack.edit("efa", "ingress", [UNKNOWN, {"protocol": "-1", "self": True}])
    assert judged(stack) == [True, False]


@pytest.mark.parametrize(("of", "to"), [("other", "efa"), ("efa", "other")])
def test_a_separate_rule_has_to_name_the_group_twice(of: str, to: str) -> None:
    stack = groups()
    props: dict[str, Value] = {"securityGroupId": UNKNOWN, "referencedSecurityGroupId": UNKNOWN, "ipProtocol": "-1"}
    stack.add("rule", tokens.INGRESS_RULE, props, securityGroupId=of, referencedSecurityGroupId=to)
    assert judged(stack) == [False, False]
    stack.sources("rule", securityGroupId=["efa"], referencedSecurityGroupId=["efa"])
    assert judged(stack) == [True, False]
