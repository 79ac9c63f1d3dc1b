import pytest

from policies import tokens
from policies.graph import Resource, known_ids
from policies.values import UNKNOWN, Value
from tests.policies.good_stack import Stack, said


def two_of_one_id() -> Stack:
    stack = Stack(at_preview=False)
    stack.add("cluster", tokens.CLUSTER, {"id": "efa-ray-train"})
    stack.add("group", tokens.PLACEMENT_GROUP, {"id": "efa-ray-train"})
    stack.add("nameless", tokens.PLACEMENT_GROUP, {"id": None})
    return stack


def names(resources: list[Resource]) -> list[str]:
    return [resource.name for resource in resources]


def test_an_id_is_looked_up_within_the_types_asked_for() -> None:
    graph = two_of_one_id().graph()
    assert names(graph.identified("efa-ray-train", [tokens.PLACEMENT_GROUP])) == ["group"]
    assert names(graph.identified("efa-ray-train", [tokens.CLUSTER])) == ["cluster"]
    assert graph.identified("other", [tokens.CLUSTER]) == []


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        (["a", "b"], ["a", "b"]),
        ("a", ["a"]),
        (["a", UNKNOWN], []),
        (UNKNOWN, []),
        (["a", ""], []),
        (["a", {"id": "b"}], []),
        (None, []),
    ],
)
def test_ids_count_only_when_all_are_known(value: Value, ids: list[str]) -> None:
    assert known_ids(Resource(type="t", urn="u", name="n", props={"a": {"b": value}}), "a.b") == ids


def test_known_ids_win_over_recorded_sources() -> None:
    stack = Stack(at_preview=False)
    for zone in ("a", "b"):
        stack.add(zone, tokens.SUBNET, {})
    stack.add("group", tokens.NODE_GROUP, {"subnetIds": ["id-a"]}, subnetIds=["a", "b"])
    graph = stack.graph()
    assert names(graph.sources(graph.of(tokens.NODE_GROUP)[0], "subnetIds", [tokens.SUBNET])) == ["a"]


def test_sources_are_found_by_type_once_each_and_up_the_parents() -> None:
    stack = Stack()
    for zone in ("a", "b"):
        stack.add(zone, tokens.SUBNET, {})
    stack.add("vpc", "aws:ec2/vpc:Vpc", {})
    stack.add("above", "some:component:Above", {}, subnetIds=["vpc", "b", "a", "b"])
    stack.add("between", "some:component:Between", {}, subnetIds=["vpc"])
    stack.resources["between"] = under(stack, "between", "above")
    stack.add("group", tokens.NODE_GROUP, {"subnetIds": UNKNOWN})
    group = under(stack, "group", "between")
    assert names(stack.graph().sources(group, "subnetIds", [tokens.SUBNET])) == ["b", "a"]
    assert stack.graph().sources(group, "launchTemplate.id", [tokens.LAUNCH_TEMPLATE]) == []


def under(stack: Stack, name: str, parent: str) -> Resource:
    one = stack.resources[name]
    return Resource(
        type=one.type,
        urn=one.urn,
        name=one.name,
        props=one.props,
        parent=stack.urn(parent),
        property_dependencies=one.property_dependencies,
    )


def test_a_stack_is_known_by_the_urn() -> None:
    assert Resource(type="t", urn="urn:pulumi:dev::project::t::n", name="n", props={}).stack == "dev"


def test_an_empty_stack_has_no_findings() -> None:
    assert said(Stack()) == []
