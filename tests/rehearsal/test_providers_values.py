"""Values, schema, names and diffs of the stand-ins."""

import pytest

from rehearsal.providers import checking
from rehearsal.providers.diffing import changes
from rehearsal.providers.naming import Autoname, physical_name
from rehearsal.providers.sdk_schema import block_schema, resource_schema
from rehearsal.providers.values import (
    OUTPUT,
    SECRET,
    SIGNATURE,
    UNKNOWN,
    Properties,
    Props,
    decode,
    encode,
    has_unknown,
)

VPC = "aws:ec2/vpc:Vpc"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"


def test_values_come_back_as_they_went() -> None:
    values: Properties = {"a": 1, "b": 1.5, "c": True, "d": "x", "e": [1, {"f": UNKNOWN}], "g": {"h": []}}
    assert decode(encode(values)) == values


def test_none_is_left_out() -> None:
    assert decode(encode({"a": None, "b": {"c": None}})) == {"b": {}}


def test_secrets_are_unwrapped_and_unknown_outputs_are_unknown() -> None:
    secret: Properties = {SIGNATURE: SECRET, "value": "x"}
    assert decode(encode({"a": secret, "b": {SIGNATURE: OUTPUT}, "c": {SIGNATURE: OUTPUT, "value": 3}})) == {
        "a": "x",
        "b": UNKNOWN,
        "c": 3,
    }


@pytest.mark.parametrize("sentinel", ["1c4a061d-8072-4f0a-a4cb-0ff528b18fe7", "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2"])
def test_each_sentinel_is_unknown(sentinel: str) -> None:
    assert decode(encode({"a": sentinel})) == {"a": UNKNOWN}


def test_unknown_is_found_deep_down() -> None:
    assert has_unknown({"a": [{"b": UNKNOWN}]})
    assert not has_unknown({"a": [{"b": "c"}]})


def test_props_read_by_path_and_type() -> None:
    props = Props({"a": {"b": [{"c": "x"}, {"c": 2}]}, "flag": "true", "n": "7", "u": UNKNOWN})
    assert (props.text("a.b.0.c"), props.number("a.b.1.c"), props.text("a.b.9.c", "none")) == ("x", 2, "none")
    assert (props.flag("flag"), props.number("n"), props.text("u"), "u" in props) == (True, 7, "", True)


def test_schema_has_names_types_and_what_is_required() -> None:
    inputs = resource_schema(NODE_GROUP).inputs
    assert {name for name, wanted in inputs.items() if wanted.required} == {
        "clusterName",
        "nodeRoleArn",
        "scalingConfig",
        "subnetIds",
    }
    assert (inputs["subnetIds"].type.kind, inputs["labels"].type.kind, inputs["scalingConfig"].type.kind) == (
        "list",
        "map",
        "block",
    )
    block = inputs["scalingConfig"].type
    assert block_schema(block.package, block.block)["desiredSize"].required


def test_schema_tells_outputs_that_are_always_there() -> None:
    outputs = resource_schema(VPC).outputs
    assert outputs["arn"].required
    assert not outputs["instanceTenancy"].required


def test_schema_of_what_is_not_there() -> None:
    with pytest.raises(LookupError, match=r"aws:ec2/vpcc:Vpcc: pulumi-aws \S+ has no such resource type"):
        resource_schema("aws:ec2/vpcc:Vpcc")


def problems(token: str, inputs: Properties) -> dict[str, str]:
    return {problem.path: problem.reason for problem in checking.check(inputs, resource_schema(token).inputs, "x")[1]}


@pytest.mark.parametrize(
    ("token", "inputs", "path", "words"),
    [
        (
            VPC,
            {"cidrBlok": "10.0.0.0/16"},
            "cidrBlok",
            "unknown property cidrBlok; did you mean cidrBlock? (allowed: assign",
        ),
        (VPC, {"enableDnsSupport": "maybe"}, "enableDnsSupport", "must be a boolean, found 'maybe'"),
        (VPC, {"tags": ["a"]}, "tags", "must be a map of texts, found a list of 1"),
        (
            NODE_GROUP,
            {"clusterName": "c", "nodeRoleArn": "r", "subnetIds": []},
            "scalingConfig",
            "missing required property scalingConfig",
        ),
        (
            NODE_GROUP,
            {"clusterName": "c", "nodeRoleArn": "r", "subnetIds": [], "scalingConfig": {"minSize": 1, "maxSize": 1}},
            "scalingConfig.desiredSize",
            "missing required property scalingConfig.desiredSize",
        ),
        (
            TEMPLATE,
            {"networkInterfaces": [{"interfacType": "efa"}]},
            "networkInterfaces[0].interfacType",
            "did you mean interfaceType?",
        ),
        (
            TEMPLATE,
            {"metadataOptions": {"httpTokens": {}}},
            "metadataOptions.httpTokens",
            "must be a text, found an object",
        ),
        (
            TEMPLATE,
            {"networkInterfaces": {"deviceIndex": 0}},
            "networkInterfaces",
            "must be a list, found an object with deviceIndex",
        ),
    ],
)
def test_bad_property(token: str, inputs: Properties, path: str, words: str) -> None:
    found = problems(token, inputs)
    assert words in found[path]


def test_unknown_values_pass_every_type() -> None:
    assert (
        problems(TEMPLATE, {"networkInterfaces": UNKNOWN, "metadataOptions": {"httpTokens": UNKNOWN}, "tags": UNKNOWN})
        == {}
    )


def test_numbers_and_flags_become_text_where_text_is_wanted() -> None:
    checked, _ = checking.check(
        {"cidrBlock": "10.0.0.0/16", "tags": {"a": 1, "b": True}}, resource_schema(VPC).inputs, "x"
    )
    assert checked["tags"] == {"a": "1", "b": "true"}


def test_names_are_stable_for_a_seed_and_fit() -> None:
    rule = Autoname(most=20, lower=True)
    name = physical_name(rule, "A-Very-Long-Logical-Name", b"seed")
    assert name == physical_name(rule, "A-Very-Long-Logical-Name", b"seed")
    assert len(name) == 20
    assert name == name.lower()
    assert name != physical_name(rule, "A-Very-Long-Logical-Name", b"other")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {}, [("a", "delete", False)]),
        ({}, {"a": 1}, [("a", "add", False)]),
        ({"name": "x"}, {"name": "y"}, [("name", "update", True)]),
        ({"name": "x"}, {"name": UNKNOWN}, [("name", "update", True)]),
        ({"t": {"id": 1, "version": 1}}, {"t": {"id": 1, "version": 2}}, [("t.version", "update", False)]),
        ({"t": {"id": 1, "version": 1}}, {"t": {"id": 2, "version": 1}}, [("t.id", "update", True)]),
        ({"t": {"id": 1}}, {}, [("t", "delete", True)]),
        ({"set": ["a", "b"]}, {"set": ["b", "a"]}, []),
        ({"set": ["a"]}, {"set": ["a", "b"]}, [("set[1]", "add", True)]),
        ({"list": ["a", "b"]}, {"list": ["b", "a"]}, [("list[0]", "update", False), ("list[1]", "update", False)]),
        ({"tags": {"a:b": "1"}}, {"tags": {"a:b": "2"}}, [('tags["a:b"]', "update", False)]),
        ({"b": {"__defaults": []}}, {"b": {"__defaults": ["x"]}}, []),
    ],
)
def test_changes(old: Properties, new: Properties, expected: list[tuple[str, str, bool]]) -> None:
    found = changes(old, new, replace_on=("name", "t.id", "set"), sets=("set",))
    assert [(change.path, change.kind, change.replaces) for change in found] == expected
