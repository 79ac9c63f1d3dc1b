import pytest

from infra.instances import instance, interfaces
from policies.values import UNKNOWN, Value
from tests.policies.good_stack import Said, Stack, found, good_stack, said

LAYOUT_FIX = "fix: lay the interfaces out from the instance type: efaInterfaces says how many"
LAYOUT_WHY = "why: EC2 refuses the launch, or the node has no address and never joins"
TYPE_FIX = "fix: lay the interfaces out from the instance type: gpuInstanceType and efaInterfaces"


def lay_out(stack: Stack, *places: tuple[int, int, str]) -> None:
    groups: Value = [UNKNOWN, stack.id("efa")]
    stack.edit(
        "template",
        "networkInterfaces",
        [
            {"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind, "securityGroups": groups}
            for card, device, kind in places
        ],
    )


@pytest.mark.parametrize("name", ["g6.12xlarge", "p4d.24xlarge", "p5.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge"])
def test_the_layout_that_the_program_makes_is_fine(name: str) -> None:
    stack = good_stack(instance_type=name)
    facts = instance(name)
    lay_out(stack, *interfaces(facts, facts.efa_interfaces))
    assert said(stack) == []


@pytest.mark.parametrize(
    ("places", "found_there", "allowed"),
    [
        ([(0, 1, "efa")], "[0] of launch template template on card 0, device index 1, type efa", "first"),
        ([(1, 0, "efa")], "[0] of launch template template on card 1, device index 0, type efa", "first"),
        ([(0, 0, "efa-only")], "[0] of launch template template on card 0, device index 0, type efa-only", "ip"),
        (
            [(0, 0, "efa"), (1, 1, "efa-only"), (1, 1, "efa-only")],
            "[2] of launch template template on card 1, device index 1, type efa-only",
            "own",
        ),
    ],
)
def test_a_wrong_layout_is_refused(places: list[tuple[int, int, str]], found_there: str, allowed: str) -> None:
    stack = good_stack(instance_type="p5.48xlarge")
    lay_out(stack, *places)
    words = {
        "first": "the first interface is on network card 0, device index 0",
        "ip": "the first interface carries IP, so its type is efa or interface, never efa-only",
        "own": "each interface has a network card and device index of its own",
    }[allowed]
    message = f"found networkInterfaces{found_there}; allowed: {words}; {LAYOUT_WHY}; {LAYOUT_FIX}"
    assert said(stack) == found("efa-interfaces", "template", message)


@pytest.mark.parametrize("key", ["vpcSecurityGroupIds", "securityGroupNames"])
def test_groups_beside_the_interfaces_are_refused(key: str) -> None:
    stack = good_stack()
    stack.edit("template", key, ["sg-1"])
    assert said(stack) == found(
        "efa-interfaces",
        "template",
        f"found {key} beside networkInterfaces in launch template template; "
        "allowed: security groups inside each interface only; why: EC2 refuses a template that has both; "
        f"fix: move {key} into networkInterfaces[].securityGroups",
    )


@pytest.mark.parametrize("subnet", [UNKNOWN, "subnet-1"])
def test_a_subnet_in_an_interface_is_refused(subnet: Value) -> None:
    stack = good_stack()
    stack.edit("template", "networkInterfaces.0.subnetId", subnet)
    assert said(stack) == found(
        "efa-interfaces",
        "template",
        "found a subnet in networkInterfaces[0] of launch template template; allowed: no subnetId in an interface; "
        "why: EKS refuses it: a managed node group's subnets come from the group; "
        "fix: remove subnetId and give the node group the one subnet of gpuAvailabilityZone",
    )


def test_more_efa_interfaces_than_the_type_has_are_refused() -> None:
    stack = good_stack()
    lay_out(stack, (0, 0, "efa"), (1, 1, "efa-only"))
    assert said(stack) == found(
        "efa-instance-type",
        "template",
        "found 2 EFA interfaces for g6.12xlarge; allowed: at most 1 EFA interfaces; why: EC2 refuses the launch; "
        "fix: set efaInterfaces to 1",
    )


def test_efa_on_a_type_without_it_is_refused() -> None:
    stack = good_stack(instance_type="m7i.2xlarge")
    messages = [s.message for s in said(stack) if s.rule == "efa-instance-type"]
    assert messages == [
        "found 1 EFA interfaces for m7i.2xlarge; allowed: at most 0 EFA interfaces; "
        "why: the type has no EFA, so NCCL would run over TCP; fix: set efa to false, or gpuInstanceType"
    ]


def test_efa_on_a_card_without_it_is_refused() -> None:
    stack = good_stack(instance_type="p4d.24xlarge")
    lay_out(stack, (0, 0, "efa"), (7, 1, "efa-only"))
    assert said(stack) == found(
        "efa-instance-type",
        "template",
        "found EFA interfaces on network cards 7 of p4d.24xlarge; allowed: network cards 0, 1, 2, 3; "
        f"why: EC2 refuses the launch: the type has no EFA on other cards; {TYPE_FIX}",
    )


def test_a_first_interface_with_efa_is_refused_where_card_0_carries_ip_alone() -> None:
    stack = good_stack(instance_type="p6-b200.48xlarge")
    assert said(stack) == found(
        "efa-instance-type",
        "template",
        "found a first interface of type efa for p6-b200.48xlarge; "
        "allowed: a first interface of type interface, with efa-only devices beside it; "
        f"why: card 0 of this type carries IP on an ENA interface of its own; {TYPE_FIX}",
    )


def test_a_type_that_the_table_lacks_is_to_be_checked_by_hand() -> None:
    stack = good_stack(instance_type="g99.12xlarge")
    assert Said(
        "efa-instance-type",
        "not-checked",
        "template",
        "not checked yet: instance type g99.12xlarge is not in infra/instances/table.py; "
        "check by hand: aws ec2 describe-instance-types (NetworkInfo)",
    ) in said(stack)


def test_unknown_interfaces_are_not_checked_by_any_rule_that_reads_them() -> None:
    stack = good_stack()
    stack.edit("template", "networkInterfaces", UNKNOWN)
    assert {(s.rule, s.level, s.message) for s in said(stack)} >= {
        (
            "efa-interfaces",
            "not-checked",
            "not checked yet: networkInterfaces is known only at up; then checked: the layout of the EFA interfaces",
        ),
        (
            "efa-security-group",
            "not-checked",
            "not checked yet: networkInterfaces is known only at up; "
            "then checked: the security groups of the EFA interfaces",
        ),
    }
    assert {s.level for s in said(stack)} == {"not-checked"}


@pytest.mark.parametrize("key", ["deviceIndex", "networkCardIndex"])
def test_an_unknown_place_hides_nothing_else(key: str) -> None:
    stack = good_stack()
    stack.edit("template", f"networkInterfaces.0.{key}", UNKNOWN)
    stack.edit("template", "networkInterfaces.0.subnetId", "subnet-1")
    assert {(s.rule, s.level) for s in said(stack) if s.rule == "efa-interfaces"} == {
        ("efa-interfaces", "not-checked"),
        ("efa-interfaces", "violation"),
    }


def test_an_unknown_instance_type_is_not_checked() -> None:
    stack = good_stack()
    stack.edit("template", "instanceType", UNKNOWN)
    assert {(s.rule, s.level) for s in said(stack)} == {
        ("efa-instance-type", "not-checked"),
        ("workers-fit", "not-checked"),
    }


def test_a_template_without_efa_may_lay_out_its_interfaces_as_it_likes() -> None:
    stack = good_stack()
    stack.edit("system-template", "networkInterfaces", [{"deviceIndex": 1, "subnetId": "subnet-1"}])
    stack.edit("system-template", "vpcSecurityGroupIds", ["sg-1"])
    assert said(stack) == []


def test_missing_indexes_are_zero() -> None:
    stack = good_stack()
    for key in ("networkCardIndex", "deviceIndex"):
        stack.edit("template", f"networkInterfaces.0.{key}", None)
    assert said(stack) == []


def test_unknown_facts_are_named_in_words() -> None:
    then = "then checked: the EFA interfaces are ones that the instance type has"
    stack = good_stack()
    stack.edit("template", "instanceType", UNKNOWN)
    assert Said(
        "efa-instance-type",
        "not-checked",
        "template",
        f"not checked yet: the instance type or the number of EFA interfaces is known only at up; {then}",
    ) in said(stack)
    stack.edit("template", "instanceType", None)
    assert [(s.rule, s.level) for s in said(stack) if s.rule == "efa-instance-type"] == [
        ("efa-instance-type", "not-checked")
    ]


def test_a_hidden_template_matters_only_where_efa_may_be() -> None:
    stack = good_stack()
    stack.sources("gpu", launchTemplate=[])
    then = "then checked: the EFA interfaces are ones that the instance type has"
    message = f"not checked yet: the launch template is known only at up; {then}"
    assert Said("efa-instance-type", "not-checked", "gpu", message) in said(stack)
    stack.edit("gpu", "tags.efa-ray-train:efa", "false")
    assert [s for s in said(stack) if s.rule in ("efa-instance-type", "cluster-placement-group")] == []
