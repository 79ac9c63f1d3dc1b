import pytest

from policies import tokens
from policies.values import UNKNOWN, Value
from tests.policies.good_stack import Said, found, good_stack, said


@pytest.mark.parametrize(("ami", "word"), [("AL2023_x86_64_STANDARD", "AL2023_x86_64_STANDARD"), (None, "unset")])
def test_r18_gpu_nodes_without_the_driver_are_refused(ami: str | None, word: str) -> None:
    stack = good_stack()
    stack.edit("gpu", "amiType", ami)
    assert said(stack) == found(
        "gpu-ami",
        "gpu",
        f"found amiType {word} on GPU node group gpu; allowed: AL2023_x86_64_NVIDIA, or another NVIDIA type; "
        "why: without the driver the device plugin finds no libnvidia-ml, and no GPU is allocatable; "
        "fix: set amiType to AL2023_x86_64_NVIDIA, or gpuInstanceType to a type without GPUs",
    )


def test_an_image_of_ones_own_is_taken_at_its_word() -> None:
    stack = good_stack()
    stack.edit("gpu", "amiType", "CUSTOM")
    stack.edit("template", "imageId", "ami-1")
    assert said(stack) == []


def test_an_unknown_ami_type_is_not_checked() -> None:
    stack = good_stack()
    stack.edit("gpu", "amiType", UNKNOWN)
    assert said(stack) == [
        Said(
            "gpu-ami",
            "not-checked",
            "gpu",
            "not checked yet: the instance type or amiType is known only at up; "
            "then checked: GPU nodes boot an NVIDIA image",
        )
    ]


@pytest.mark.parametrize("key", ["maxUnavailable", "maxUnavailablePercentage"])
@pytest.mark.parametrize("value", [0, 101, -1, "many", 1.5])
def test_r16_an_update_that_eks_would_refuse_is_refused(key: str, value: Value) -> None:
    stack = good_stack()
    stack.edit("gpu", "updateConfig", {key: value})
    assert said(stack) == found(
        "node-update",
        "gpu",
        f"found updateConfig.{key} {value} on node group gpu; allowed: 1 to 100; "
        f"why: EKS refuses the group; 0 would never replace a node; fix: set updateConfig.{key} to 1",
    )


@pytest.mark.parametrize("value", [1, 100, "50"])
def test_r16_values_that_eks_accepts_pass(value: Value) -> None:
    stack = good_stack()
    stack.edit("gpu", "updateConfig.maxUnavailable", value)
    assert said(stack) == []


def test_an_unknown_update_is_not_checked() -> None:
    stack = good_stack()
    stack.edit("gpu", "updateConfig.maxUnavailable", UNKNOWN)
    assert [(s.rule, s.level, s.message) for s in said(stack)] == [
        (
            "node-update",
            "not-checked",
            "not checked yet: updateConfig.maxUnavailable is known only at up; then checked: it is 1 to 100",
        )
    ]


def test_a_group_of_unknown_type_is_not_taken_for_a_cpu_group() -> None:
    stack = good_stack()
    stack.sources("system", launchTemplate=[])
    rules = {(s.rule, s.level) for s in said(stack) if s.resource == "system"}
    assert rules >= {("gpu-ami", "not-checked"), ("one-gpu-zone", "not-checked")}
    assert {level for _, level in rules} == {"not-checked"}


def test_a_group_that_names_its_type_itself_needs_no_template() -> None:
    stack = good_stack()
    stack.add(
        "plain",
        tokens.NODE_GROUP,
        {"instanceTypes": ["g5.12xlarge"], "amiType": "AL2_x86_64", "subnetIds": [stack.id("subnet-gpu")]},
        subnetIds="subnet-gpu",
    )
    assert [(s.rule, s.resource) for s in said(stack) if s.level == "violation"] == [("gpu-ami", "plain")]
