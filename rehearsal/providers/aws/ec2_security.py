"""Security groups and their rules: the rule types of pulumi-aws 7, and the older one that pulumi-eks still uses."""

from __future__ import annotations

import hashlib
import json

from rehearsal.local_aws import catalog

from ..naming import Autoname
from ..values import Properties, Props
from .kind import Call, Kind, from_tag_list, void
from .tagging import retag_ec2

_ALL = "-1"


def _create_group(call: Call) -> str:
    made = call(
        "ec2",
        "CreateSecurityGroup",
        GroupName=call.inputs.text("name"),
        Description=call.inputs.text("description"),
        VpcId=call.inputs.text("vpcId") or None,
        TagSpecifications=call.ec2_tags("security-group"),
    )
    group_id = made.text("GroupId")
    # EC2 opens a new group to the world outwards; pulumi-aws closes it again.
    call(
        "ec2",
        "RevokeSecurityGroupEgress",
        GroupId=group_id,
        IpPermissions=[{"IpProtocol": _ALL, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}],
    )
    return group_id


def _read_group(call: Call) -> Properties | None:
    group = call("ec2", "DescribeSecurityGroups", GroupIds=[call.id]).block("SecurityGroups.0")
    owner = group.text("OwnerId")
    return {
        "arn": f"arn:aws:ec2:{call.region}:{owner}:security-group/{call.id}",
        "name": group.text("GroupName"),
        "namePrefix": "",
        "description": group.text("Description"),
        "vpcId": group.text("VpcId"),
        "ownerId": owner,
        "ingress": [],
        "egress": [],
        "tags": from_tag_list(group.blocks("Tags")),
    }


def _no_inline_rules(inputs: Props) -> list[tuple[str, str]]:
    return [
        (
            name,
            f"the stand-in keeps rules as resources of their own: use aws.vpc.SecurityGroup{name.title()}Rule, not {name}",
        )
        for name in ("ingress", "egress")
        if inputs.get(name)
    ]


SECURITY_GROUP = Kind(
    title="Security Group",
    create=_create_group,
    read=_read_group,
    update=retag_ec2,
    delete=lambda call: void(call("ec2", "DeleteSecurityGroup", GroupId=call.id)),
    replace_on=("name", "namePrefix", "description", "vpcId"),
    autoname=Autoname(),
    defaults={"description": "Managed by Pulumi", "revokeRulesOnDelete": False},
    rules=(_no_inline_rules,),
    gone=("InvalidGroup.NotFound",),
)


def _permission(inputs: Props) -> dict[str, object]:
    """Give the rule as EC2 takes it."""
    permission: dict[str, object] = {"IpProtocol": inputs.text("ipProtocol")}
    if inputs.text("ipProtocol") != _ALL:
        permission |= {"FromPort": inputs.number("fromPort", -1), "ToPort": inputs.number("toPort", -1)}
    described = {"Description": inputs.text("description")} if inputs.text("description") else {}
    if inputs.text("cidrIpv4"):
        permission["IpRanges"] = [{"CidrIp": inputs.text("cidrIpv4"), **described}]
    if inputs.text("cidrIpv6"):
        permission["Ipv6Ranges"] = [{"CidrIpv6": inputs.text("cidrIpv6"), **described}]
    if inputs.text("prefixListId"):
        permission["PrefixListIds"] = [{"PrefixListId": inputs.text("prefixListId"), **described}]
    if inputs.text("referencedSecurityGroupId"):
        permission["UserIdGroupPairs"] = [{"GroupId": inputs.text("referencedSecurityGroupId"), **described}]
    return permission


def _create_rule(call: Call, direction: str) -> str:
    made = call(
        "ec2",
        f"AuthorizeSecurityGroup{direction}",
        GroupId=call.inputs.text("securityGroupId"),
        IpPermissions=[_permission(call.inputs)],
        TagSpecifications=call.ec2_tags("security-group-rule"),
    )
    return made.text("SecurityGroupRules.0.SecurityGroupRuleId")


def _read_rule(call: Call) -> Properties | None:
    found = call("ec2", "DescribeSecurityGroupRules", SecurityGroupRuleIds=[call.id]).block("SecurityGroupRules.0")
    if not found.text("SecurityGroupRuleId"):
        return None
    return {
        "arn": f"arn:aws:ec2:{call.region}:{found.text('GroupOwnerId', catalog.ACCOUNT)}:security-group-rule/{call.id}",
        "securityGroupRuleId": call.id,
        "securityGroupId": found.text("GroupId"),
        "tags": from_tag_list(found.blocks("Tags")) or call.inputs.get("tags"),
    }


_RULE_MEMBERS = {
    "ipProtocol": "IpProtocol",
    "cidrIpv4": "CidrIpv4",
    "cidrIpv6": "CidrIpv6",
    "prefixListId": "PrefixListId",
    "referencedSecurityGroupId": "ReferencedGroupId",
    "description": "Description",
}


def _update_rule(call: Call) -> None:
    ports = {api: call.inputs.number(name, -1) for name, api in (("fromPort", "FromPort"), ("toPort", "ToPort"))}
    if call.changed("fromPort", "toPort", *_RULE_MEMBERS):
        rule = {api: call.inputs.text(name) for name, api in _RULE_MEMBERS.items() if call.inputs.text(name)}
        call(
            "ec2",
            "ModifySecurityGroupRules",
            GroupId=call.inputs.text("securityGroupId"),
            SecurityGroupRules=[{"SecurityGroupRuleId": call.id, "SecurityGroupRule": {**rule, **ports}}],
        )
    retag_ec2(call)


def _rule_source(inputs: Props) -> list[tuple[str, str]]:
    names = ("cidrIpv4", "cidrIpv6", "prefixListId", "referencedSecurityGroupId")
    given = [name for name in names if inputs.get(name) is not None]
    problems: list[tuple[str, str]] = []
    if len(given) != 1:
        problems.append(
            (
                given[0] if given else names[0],
                f"exactly one of {', '.join(names)} is required, found {', '.join(given) or 'none'}",
            )
        )
    if inputs.text("ipProtocol") == _ALL and (inputs.get("fromPort") is not None or inputs.get("toPort") is not None):
        problems.append(("fromPort", 'fromPort and toPort must be left out when ipProtocol is "-1" (all traffic)'))
    return problems


def _rule_kind(direction: str) -> Kind:
    return Kind(
        title=f"VPC Security Group {direction} Rule",
        create=lambda call: _create_rule(call, direction),
        read=_read_rule,
        update=_update_rule,
        delete=lambda call: void(
            call(
                "ec2",
                f"RevokeSecurityGroup{direction}",
                GroupId=call.state.text("securityGroupId"),
                IpPermissions=[_permission(call.state)],
            )
        ),
        replace_on=("securityGroupId",),
        rules=(_rule_source,),
        gone=("InvalidSecurityGroupRuleId.NotFound", "InvalidPermission.NotFound", "InvalidGroup.NotFound"),
    )


INGRESS_RULE = _rule_kind("Ingress")
EGRESS_RULE = _rule_kind("Egress")


def _old_permission(inputs: Props) -> dict[str, object]:
    """Give a rule of the older type as EC2 takes it."""
    described = {"Description": inputs.text("description")} if inputs.text("description") else {}
    permission: dict[str, object] = {"IpProtocol": inputs.text("protocol")}
    if inputs.text("protocol") != _ALL:
        permission |= {"FromPort": inputs.number("fromPort"), "ToPort": inputs.number("toPort")}
    if inputs.texts("cidrBlocks"):
        permission["IpRanges"] = [{"CidrIp": cidr, **described} for cidr in inputs.texts("cidrBlocks")]
    source = inputs.text("securityGroupId") if inputs.flag("self") else inputs.text("sourceSecurityGroupId")
    if source:
        permission["UserIdGroupPairs"] = [{"GroupId": source, **described}]
    return permission


def _old_action(inputs: Props, verb: str) -> str:
    return f"{verb}SecurityGroup{'Ingress' if inputs.text('type') == 'ingress' else 'Egress'}"


def _create_old_rule(call: Call) -> str:
    permission = _old_permission(call.inputs)
    call(
        "ec2",
        _old_action(call.inputs, "Authorize"),
        GroupId=call.inputs.text("securityGroupId"),
        IpPermissions=[permission],
    )
    digest = hashlib.sha256(
        json.dumps([call.inputs.text("securityGroupId"), permission], sort_keys=True).encode()
    ).hexdigest()
    return f"sgrule-{int(digest[:8], 16)}"


def _read_old_rule(call: Call) -> Properties | None:
    inputs = Props({**call.state.values, **call.inputs.values})
    group = inputs.text("securityGroupId")
    found = call("ec2", "DescribeSecurityGroupRules", Filters=[{"Name": "group-id", "Values": [group]}])
    egress = inputs.text("type") == "egress"
    source = group if inputs.flag("self") else inputs.text("sourceSecurityGroupId")
    cidrs = inputs.texts("cidrBlocks")
    for rule in found.blocks("SecurityGroupRules"):
        same_source = rule.text("ReferencedGroupInfo.GroupId") == source if source else rule.text("CidrIpv4") in cidrs
        if rule.flag("IsEgress") == egress and rule.text("IpProtocol") == inputs.text("protocol") and same_source:
            return {"securityGroupRuleId": rule.text("SecurityGroupRuleId"), "sourceSecurityGroupId": source}
    return None


OLD_RULE = Kind(
    title="Security Group Rule",
    create=_create_old_rule,
    read=_read_old_rule,
    delete=lambda call: void(
        call(
            "ec2",
            _old_action(call.state, "Revoke"),
            GroupId=call.state.text("securityGroupId"),
            IpPermissions=[_old_permission(call.state)],
        )
    ),
    replace_on=(
        "cidrBlocks",
        "fromPort",
        "ipv6CidrBlocks",
        "prefixListIds",
        "protocol",
        "securityGroupId",
        "self",
        "sourceSecurityGroupId",
        "toPort",
        "type",
        "description",
    ),
    defaults={"self": False},
    gone=("InvalidGroup.NotFound", "InvalidPermission.NotFound"),
)
