"""The scheduling predicate, rule by rule, against the semantics that Kubernetes documents."""

import pytest

from rehearsal.errors import RehearsalError
from rehearsal.scheduling import Manifest, Node, Taint, requirement_holds, tolerates, why_not

LABELS = {"kind": "gpu", "generation": "6", "word": "six"}
NODE = Node(name="node-a", labels=LABELS)
TAINT = Taint(key="nvidia.com/gpu", value="true")


@pytest.mark.parametrize(
    ("key", "operator", "values", "holds"),
    [
        ("kind", "In", ["cpu", "gpu"], True),
        ("kind", "In", ["cpu"], False),
        ("absent", "In", ["gpu"], False),
        ("kind", "NotIn", ["gpu"], False),
        ("kind", "NotIn", ["cpu"], True),
        ("absent", "NotIn", ["gpu"], True),
        ("kind", "Exists", [], True),
        ("absent", "Exists", [], False),
        ("kind", "DoesNotExist", [], False),
        ("absent", "DoesNotExist", [], True),
        ("generation", "Gt", ["5"], True),
        ("generation", "Gt", ["6"], False),
        ("generation", "Lt", ["7"], True),
        ("generation", "Lt", ["6"], False),
        ("word", "Gt", ["5"], False),
        ("word", "Lt", ["5"], False),
        ("absent", "Lt", ["7"], False),
        ("generation", "Gt", ["1", "2"], False),
    ],
)
def test_match_expressions(key: str, operator: str, values: list[str], holds: bool) -> None:
    assert requirement_holds({"key": key, "operator": operator, "values": values}, LABELS) is holds


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}, True),
        ({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}, False),
        ({"key": "nvidia.com/gpu"}, False),
        ({"operator": "Exists"}, True),
        ({"key": "CriticalAddonsOnly", "operator": "Exists"}, False),
    ],
)
def test_tolerations(toleration: Manifest, covers: bool) -> None:
    assert tolerates(toleration, TAINT) is covers


def affine(*terms: Manifest) -> Manifest:
    return {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
        }
    }


def wants(key: str, value: str) -> Manifest:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}


def test_terms_are_alternatives_and_expressions_add_up() -> None:
    assert why_not(affine(wants("kind", "cpu"), wants("kind", "gpu")), NODE) is None
    both: Manifest = {
        "matchExpressions": [
            {"key": "kind", "operator": "In", "values": ["gpu"]},
            {"key": "word", "operator": "In", "values": ["ten"]},
        ]
    }
    assert why_not(affine(both), NODE) == "no required affinity term matches (labels kind, word)"


def test_terms_without_requirements_match_nothing() -> None:
    assert why_not(affine({}), NODE) is not None
    assert why_not(affine(), NODE) == "no required affinity term matches (labels none named)"


def test_match_fields_look_at_the_name() -> None:
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}
    assert why_not(affine(named), NODE) is None
    assert why_not(affine(named), Node(name="node-b", labels=LABELS)) is not None


def test_selector_and_affinity_hold_together() -> None:
    pod = {"nodeSelector": {"kind": "cpu"}, **affine(wants("kind", "gpu"))}
    assert why_not(pod, NODE) == "nodeSelector kind=cpu, node has 'gpu'"
    assert why_not({"nodeSelector": {"absent": "x"}}, NODE) == "nodeSelector absent=x, node has no such label"


def test_preferred_affinity_decides_nothing() -> None:
    pod = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}}
    assert why_not(pod, NODE) is None


def test_taints() -> None:
    tainted = Node(name="node-a", labels={}, taints=(TAINT, Taint(key="soft", effect="PreferNoSchedule")))
    assert why_not({}, tainted) == "taint nvidia.com/gpu=true:NoSchedule is not tolerated"
    assert why_not({"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}, tainted) is None


def test_daemon_sets_tolerate_a_node_that_is_not_ready() -> None:
    pressed = Node(name="node-a", labels={}, taints=(Taint(key="node.kubernetes.io/disk-pressure"),))
    cut_off = Node(name="node-a", labels={}, taints=(Taint(key="node.kubernetes.io/network-unavailable"),))
    assert why_not({}, pressed) is not None
    assert why_not({}, pressed, daemon_set=True) is None
    assert why_not({}, cut_off, daemon_set=True) is not None
    assert why_not({"hostNetwork": True}, cut_off, daemon_set=True) is None


def test_unknown_operators_are_no_guess() -> None:
    with pytest.raises(ValueError, match="affinity operator on kind: found 'Like'; allowed In"):
        requirement_holds({"key": "kind", "operator": "Like", "values": []}, LABELS)
    with pytest.raises(ValueError, match="toleration operator: found 'Like'"):
        tolerates({"key": "nvidia.com/gpu", "operator": "Like"}, TAINT)


def test_a_value_that_yaml_made_a_boolean_is_named() -> None:
    with pytest.raises(RehearsalError, match="found True; a string is allowed here, so quote it"):
        why_not(affine({"matchExpressions": [{"key": "kind", "operator": "In", "values": [True]}]}), NODE)
