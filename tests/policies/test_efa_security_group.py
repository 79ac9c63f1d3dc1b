import pytest

from policies import tokens
from policies.values import UNKNOWN
from tests.policies.good_stack import Said, Stack, found, good_stack, said

BOTH = [True, False]


def refused(missing: str, fix: str) -> list[Said]:
    return found(
        "efa-security-group",
        "efa",
        "found security group efa, used by networkInterfaces[0] of launch template template, "
        f"without an all-traffic {missing} rule to itself; "
        "allowed: ingress and egress of all protocols (-1) that name the group itself; "
        "why: EFA's packets pass only a rule that names the group itself, 0.0.0.0/0 is not enough: "
        "ranks hang, or error 4126; "
        f"fix: add the {fix} rule: ipProtocol -1, referencedSecurityGroupId the group's own id",
    )


NO_CLUSTER_GROUP = found(
    "efa-security-group",
    "template",
    "found networkInterfaces[0] of launch template template without the cluster's security group; "
    "allowed: both the cluster's security group and the EFA group; "
    "why: EKS adds none when an interface names its own, so the nodes never join the cluster; "
    "fix: list the cluster's security group beside the EFA group",
)


@pytest.mark.parametrize("at_preview", BOTH)
@pytest.mark.parametrize("way", ["ingress", "egress"])
def test_r15_a_missing_direction_is_refused(way: str, at_preview: bool) -> None:
    stack = good_stack(at_preview=at_preview)
    del stack.resources[f"efa-{way}"]
    assert said(stack) == refused(way, way)


@pytest.mark.parametrize("at_preview", BOTH)
def test_r15_egress_to_everywhere_is_not_enough(at_preview: bool) -> None:
    stack = good_stack(at_preview=at_preview)
    stack.edit("efa-egress", "referencedSecurityGroupId", None)
    stack.sources("efa-egress", referencedSecurityGroupId=[])
    stack.edit("efa-egress", "cidrIpv4", "0.0.0.0/0")
    assert said(stack) == refused("egress", "egress")


def test_a_rule_for_one_protocol_is_not_enough() -> None:
    stack = good_stack()
    stack.edit("efa-ingress", "ipProtocol", "tcp")
    assert said(stack) == refused("ingress", "ingress")


def test_a_group_without_rules_lacks_both_directions() -> None:
    stack = good_stack()
    del stack.resources["efa-ingress"], stack.resources["efa-egress"]
    assert said(stack) == refused("ingress or egress", "ingress and egress")


def test_an_unknown_protocol_is_not_checked() -> None:
    stack = good_stack()
    stack.edit("efa-ingress", "ipProtocol", UNKNOWN)
    assert said(stack) == [
        Said(
            "efa-security-group",
            "not-checked",
            "efa",
            "not checked yet: its rules is known only at up; "
            "then checked: security group efa is open to itself both ways",
        )
    ]


def rules_elsewhere(stack: Stack) -> None:
    del stack.resources["efa-ingress"], stack.resources["efa-egress"]


@pytest.mark.parametrize("protocol", ["-1", "all"])
def test_rules_inside_the_group_count(protocol: str) -> None:
    stack = good_stack()
    rules_elsewhere(stack)
    rule = {"protocol": protocol, "fromPort": 0, "toPort": 0, "self": True}
    stack.edit("efa", "ingress", [rule])
    stack.edit("efa", "egress", [rule])
    assert said(stack) == []


@pytest.mark.parametrize("at_preview", BOTH)
def test_rules_of_the_older_kind_count(at_preview: bool) -> None:
    stack = good_stack(at_preview=at_preview)
    rules_elsewhere(stack)
    for way, extra in (("ingress", {"self": True}), ("egress", {"sourceSecurityGroupId": stack.id("efa")})):
        props = {"type": way, "protocol": "-1", "securityGroupId": stack.id("efa"), **extra}
        stack.add(
            f"old-{way}",
            tokens.SECURITY_GROUP_RULE,
            props,
            securityGroupId="efa",
            **({"sourceSecurityGroupId": "efa"} if way == "egress" else {}),
        )
    assert said(stack) == []


def test_r15_the_cluster_group_is_missing_at_preview() -> None:
    stack = good_stack()
    stack.edit("template", "networkInterfaces.0.securityGroups", [UNKNOWN])
    stack.sources("template", networkInterfaces=["efa"])
    assert said(stack) == NO_CLUSTER_GROUP


def test_the_cluster_group_is_missing_at_up() -> None:
    stack = good_stack(at_preview=False)
    stack.edit("template", "networkInterfaces.0.securityGroups", ["id-efa"])
    stack.sources("template", networkInterfaces=["efa"])
    assert said(stack) == NO_CLUSTER_GROUP


def test_no_group_at_all_is_refused() -> None:
    stack = good_stack()
    stack.edit("template", "networkInterfaces.0.securityGroups", [])
    stack.sources("template", networkInterfaces=[])
    assert said(stack) == NO_CLUSTER_GROUP


def test_the_efa_group_is_missing_at_up() -> None:
    stack = good_stack(at_preview=False)
    stack.edit("template", "networkInterfaces.0.securityGroups", ["sg-cluster"])
    stack.sources("template", networkInterfaces=["cluster"])
    assert said(stack) == [
        Said(
            "efa-security-group",
            "violation",
            "template",
            "found networkInterfaces[0] of launch template template without an EFA security group; "
            "allowed: both the cluster's security group and the EFA group; "
            "why: EFA's packets pass only a rule that names the group itself, 0.0.0.0/0 is not enough: "
            "ranks hang, or error 4126; fix: list the EFA group beside the cluster's security group",
        )
    ]


def test_groups_of_unknown_origin_are_not_checked() -> None:
    stack = good_stack()
    stack.edit("template", "networkInterfaces.0.securityGroups", UNKNOWN)
    stack.sources("template", networkInterfaces=[])
    assert [(s.level, s.message) for s in said(stack)] == [
        (
            "not-checked",
            "not checked yet: securityGroups of networkInterfaces[0] of launch template template is known only at up; "
            "then checked: the cluster's group is among them",
        ),
        (
            "not-checked",
            "not checked yet: the EFA security group of networkInterfaces[0] of launch template template "
            "is known only at up; then checked: it is open to itself both ways",
        ),
    ]


def test_32_interfaces_alike_are_one_finding() -> None:
    stack = good_stack(instance_type="p5.48xlarge")
    first = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "efa", "securityGroups": [UNKNOWN, UNKNOWN]}
    further = [
        {**first, "networkCardIndex": card, "deviceIndex": 1, "interfaceType": "efa-only"} for card in range(1, 32)
    ]
    stack.edit("template", "networkInterfaces", [first, *further])
    del stack.resources["efa-egress"]
    assert [s.message.split(";")[0] for s in said(stack)] == [
        "found security group efa, used by networkInterfaces[0..31] of launch template template, "
        "without an all-traffic egress rule to itself"
    ]


def test_the_group_marked_as_efas_is_named_among_several() -> None:
    stack = good_stack()
    stack.add("extra", tokens.SECURITY_GROUP, {"tags": {tokens.TAG_ROLE: "other"}})
    stack.edit("template", "networkInterfaces.0.securityGroups", [UNKNOWN, UNKNOWN, UNKNOWN])
    stack.sources("template", networkInterfaces=["extra", "cluster", "efa"])
    assert said(stack) == []
    del stack.resources["efa-egress"]
    assert said(stack) == refused("egress", "egress")


def test_a_group_without_a_mark_is_named_all_the_same() -> None:
    stack = good_stack()
    stack.edit("efa", "tags", None)
    del stack.resources["efa-egress"]
    assert said(stack) == refused("egress", "egress")


def test_known_ids_that_no_resource_bears_are_followed_by_source() -> None:
    stack = good_stack(at_preview=False)
    for name in ("efa", "efa-ingress", "efa-egress"):
        stack.edit(name, "id", None)
    assert said(stack) == []
    del stack.resources["efa-ingress"]
    assert said(stack) == refused("ingress", "ingress")


def test_an_id_from_elsewhere_may_be_the_clusters_until_the_cluster_says_its_own() -> None:
    stack = good_stack(at_preview=False)
    stack.edit("cluster", "vpcConfig.clusterSecurityGroupId", UNKNOWN)
    assert said(stack) == []
    stack.sources("template", networkInterfaces=["efa"])
    where = "networkInterfaces[0] of launch template template"
    assert [(s.level, s.message) for s in said(stack)] == [
        (
            "not-checked",
            f"not checked yet: securityGroups of {where} is known only at up; "
            "then checked: the cluster's group is among them",
        )
    ]
    stack.edit("cluster", "vpcConfig.clusterSecurityGroupId", "sg-other")
    assert said(stack) == NO_CLUSTER_GROUP


def test_a_group_of_another_stack_may_be_the_efa_group() -> None:
    stack = good_stack(at_preview=False)
    stack.edit("template", "networkInterfaces.0.securityGroups", ["sg-cluster", "sg-elsewhere"])
    stack.sources("template", networkInterfaces=["cluster"])
    assert [(s.rule, s.level) for s in said(stack)] == [("efa-security-group", "not-checked")]


def test_one_of_two_unknown_groups_may_be_the_clusters() -> None:
    stack = good_stack()
    stack.sources("template", networkInterfaces=["efa"])
    assert [(s.level, s.message.split(";")[0]) for s in said(stack)] == [
        (
            "not-checked",
            "not checked yet: securityGroups of networkInterfaces[0] of launch template template is known only at up",
        )
    ]
