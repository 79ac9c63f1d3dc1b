"""Decide whether a pod may land on a node: the scheduler's rules on selectors, affinity and taints, pure functions.

Resources, other pods and topology are left out: a DaemonSet is judged by these rules alone when its pods are made.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/ and .../taint-and-toleration/
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from rehearsal.documents import as_list, as_mapping, as_text

Manifest: TypeAlias = Mapping[str, object]

_SCHEDULING_EFFECTS: Final = ("NoSchedule", "NoExecute")
"""PreferNoSchedule only lowers a node's rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A mark on a node that keeps pods away unless they tolerate it."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def __str__(self) -> str:
        """Return the taint as kubectl prints it."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What the scheduler matches a pod against."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = field(default=())


_DAEMON_SET_TOLERATIONS: Final[tuple[Manifest, ...]] = (
    *(
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        for key in ("not-ready", "unreachable")
    ),
    *(
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoSchedule"}
        for key in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
    ),
)
"""What the DaemonSet controller adds to every pod that it makes."""

_HOST_NETWORK_TOLERATION: Final[Manifest] = {
    "key": "node.kubernetes.io/network-unavailable",
    "operator": "Exists",
    "effect": "NoSchedule",
}


def why_not(pod_spec: Manifest, node: Node, *, daemon_set: bool = False) -> str | None:
    """Return in a few words why a pod may not land on `node`, or None when it may.

    `daemon_set` adds the tolerations that the DaemonSet controller gives to its pods.
    Raises ValueError for an operator that Kubernetes does not know.
    """
    for key, wanted in as_mapping(pod_spec.get("nodeSelector")).items():
        if node.labels.get(key) != wanted:
            return f"nodeSelector {key}={wanted}, node has {_shown(node.labels.get(key))}"
    node_affinity = as_mapping(as_mapping(pod_spec.get("affinity")).get("nodeAffinity"))
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None:
        terms = [as_mapping(term) for term in as_list(as_mapping(required).get("nodeSelectorTerms"))]
        if not any(_term_matches(term, node) for term in terms):
            keys = [as_text(entry["key"]) for term in terms for entry in _expressions(term)]
            return f"no required affinity term matches (labels {', '.join(dict.fromkeys(keys)) or 'none named'})"
    tolerations = [as_mapping(entry) for entry in as_list(pod_spec.get("tolerations"))]
    if daemon_set:
        tolerations += _DAEMON_SET_TOLERATIONS
        if pod_spec.get("hostNetwork") is True:
            tolerations.append(_HOST_NETWORK_TOLERATION)
    for taint in node.taints:
        if taint.effect in _SCHEDULING_EFFECTS and not any(tolerates(entry, taint) for entry in tolerations):
            return f"taint {taint} is not tolerated"
    return None


def tolerates(toleration: Manifest, taint: Taint) -> bool:
    """Tell whether a toleration covers a taint; no effect covers all effects, no key with Exists all keys."""
    if toleration.get("effect") not in (None, "", taint.effect):
        return False
    key = toleration.get("key") or ""
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return key in ("", taint.key)
    if operator != "Equal":
        raise ValueError(f"toleration operator: found {operator!r}; allowed Equal, Exists")
    return key == taint.key and (toleration.get("value") or "") == taint.value


def requirement_holds(requirement: Manifest, values: Mapping[str, str]) -> bool:
    """Tell whether a match expression holds; a missing label satisfies only NotIn and DoesNotExist."""
    key, operator = as_text(requirement["key"]), requirement.get("operator")
    wanted = [as_text(value) for value in as_list(requirement.get("values"))]
    found = values.get(key)
    match operator:
        case "In":
            return found in wanted
        case "NotIn":
            return found not in wanted
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt" | "Lt":
            return _compares(found, wanted, greater=operator == "Gt")
        case _:
            raise ValueError(
                f"affinity operator on {key}: found {operator!r}; allowed In, NotIn, Exists, DoesNotExist, Gt, Lt"
            )


def _compares(found: str | None, wanted: Sequence[str], *, greater: bool) -> bool:
    if found is None or len(wanted) != 1:
        return False
    try:
        left, right = int(found), int(wanted[0])
    except ValueError:
        # Kubernetes lets a label that is no integer match neither way.
        return False
    return left > right if greater else left < right


def _expressions(term: Manifest) -> list[Manifest]:
    return [as_mapping(entry) for entry in as_list(term.get("matchExpressions"))]


def _term_matches(term: Manifest, node: Node) -> bool:
    on_labels = _expressions(term)
    on_fields = [as_mapping(entry) for entry in as_list(term.get("matchFields"))]
    if not on_labels and not on_fields:
        return False
    fields = {"metadata.name": node.name}
    return all(requirement_holds(entry, node.labels) for entry in on_labels) and all(
        requirement_holds(entry, fields) for entry in on_fields
    )


def _shown(value: str | None) -> str:
    return "no such label" if value is None else repr(value)
