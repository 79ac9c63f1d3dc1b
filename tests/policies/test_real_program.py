"""The whole program, registered under mocks, judged by the whole pack."""

from collections.abc import Mapping
from functools import cache
from typing import cast

import pytest

from policies.graph import Graph, Resource
from policies.pack import RULES
from policies.rules import findings
from policies.values import UNKNOWN, Value, fields
from tests.program.recorder import Registered, World, run_program

DIGEST = "public.ecr.aws/deep-learning-containers/ray@sha256:" + "0123456789abcdef" * 4
VARIANTS: Mapping[str, Mapping[str, str]] = {
    "two g6.12xlarge": {},
    "four p5.48xlarge": {
        "efa-ray-train:gpuInstanceType": "p5.48xlarge",
        "efa-ray-train:gpuNodeCount": "4",
        "efa-ray-train:workerGpus": "8",
    },
    "without EFA": {"efa-ray-train:efa": "false"},
    "no placement group, for a reason": {
        "efa-ray-train:placementGroup": "none",
        "efa-ray-train:placementGroupReason": "measured: no difference",
    },
    "public API for one range": {
        "efa-ray-train:apiAccess": "publicCidrs",
        "efa-ray-train:apiPublicCidrs": '["203.0.113.0/24"]',
    },
}


@cache
def world(variant: str) -> World:
    return run_program({"efa-ray-train:image": DIGEST, **VARIANTS[variant]}, stack="production")


def graph(variant: str, *, at_preview: bool) -> Graph:
    # The mocks register one resource of their own, without inputs: the control plane inside EKS's component.
    registered = [one for one in world(variant).resources.values() if hasattr(one, "inputs")]
    unknown = {f"{one.name}-id" for one in registered} | {"sg-cluster"} if at_preview else set[str]()
    return Graph(tuple(record(one, unknown, at_preview=at_preview) for one in registered))


def record(registered: Registered, unknown: set[str], *, at_preview: bool) -> Resource:
    props = fields(value(dict(registered.inputs), unknown))
    return Resource(
        type=registered.type,
        urn=registered.urn,
        name=registered.name,
        props=props if at_preview else {"id": f"{registered.name}-id", **props},
        parent=registered.parent or None,
        dependencies=tuple(registered.depends_on),
        property_dependencies={key: tuple(urns) for key, urns in registered.property_depends_on.items()},
    )


def value(raw: object, unknown: set[str]) -> Value:
    if isinstance(raw, dict):
        return {str(key): value(inner, unknown) for key, inner in cast("dict[object, object]", raw).items()}
    if isinstance(raw, list):
        return [value(inner, unknown) for inner in cast("list[object]", raw)]
    if isinstance(raw, str) and raw in unknown:
        return UNKNOWN
    return raw if raw is None or isinstance(raw, bool | int | float | str) else type(raw).__name__


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("at_preview", [True, False])
def test_the_program_has_no_findings_and_leaves_nothing_unchecked(variant: str, at_preview: bool) -> None:
    said = [(rule.id, one.level, one.message) for rule, one in findings(RULES, graph(variant, at_preview=at_preview))]
    assert said == []


def test_the_program_is_really_judged() -> None:
    whole = graph("two g6.12xlarge", at_preview=True)
    rules = {
        resource.name: resource for resource in whole.of("aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule")
    }
    without = Graph(tuple(resource for resource in whole.resources if resource.name not in rules))
    assert {rule.id for rule, _ in findings(RULES, without)} == {"efa-security-group"}
