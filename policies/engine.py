"""The bridge to Pulumi's policy SDK: what the engine sends becomes a graph, and what a rule finds becomes a report.

The engine shows a policy two views of a resource. Before it is made (`Analyze`): its inputs, without dependencies. At
the end (`AnalyzeStack`): its outputs, with dependencies. At the first preview the second view is empty for every
resource whose provider is not configured yet, which is the case for all of Kubernetes when the stack makes the cluster:
a pack that reads it alone passes everything. So the inputs seen first are kept, and the graph is built from both.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import pulumi
from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UnknownValueError

from policies.graph import Graph, Resource
from policies.rules import Finding, Level, ResourceRule, Rule, StackRule
from policies.values import UNKNOWN, Properties, Value, entries, fields

NOT_CHECKED = "not-checked-yet"
NOT_CHECKED_STACK = "not-checked-yet-stack"
_NOT_CHECKED_WHAT = "What these policies could not check: they name the value that is missing."


def to_value(raw: object) -> Value:
    """Turn a property value of the SDK into a Value.

    The SDK raises an error at the first touch of an unknown, however deep. Here it is caught where it stands, so that
    one unknown field hides nothing else of its object.

    Raises TypeError on an object that no property can be.
    """
    if isinstance(raw, Mapping):
        mapping = cast("Mapping[str, object]", raw)
        return {key: _known(lambda key=key: mapping[key]) for key in mapping}
    if isinstance(raw, Sequence) and not isinstance(raw, str):
        sequence = cast("Sequence[object]", raw)
        return [_known(lambda index=index: sequence[index]) for index in range(len(sequence))]
    if isinstance(raw, float) and raw.is_integer():
        return int(raw)
    if raw is None or isinstance(raw, bool | int | float | str):
        return raw
    if isinstance(raw, pulumi.Asset | pulumi.Archive):
        return type(raw).__name__
    raise TypeError(f"property value: found {type(raw).__name__}; allowed: what Pulumi's policy SDK deserializes to")


def _known(read: Callable[[], object]) -> Value:
    try:
        element = read()
    except UnknownValueError:
        return UNKNOWN
    return to_value(element)


def merge(inputs: Value, outputs: Value) -> Value:
    """Lay `inputs` over `outputs`: what the program asks for counts, and the provider fills in what it knows.

    A provider calls everything unknown that it computes, also what the program leaves out on purpose: such an output
    does not turn an absent input into an unknown one.
    """
    if inputs is UNKNOWN and outputs is not None:
        return outputs
    if isinstance(outputs, Mapping) and (inputs is None or isinstance(inputs, Mapping)):
        asked = fields(inputs)
        return {key: merge(asked.get(key), outputs.get(key)) for key in {**outputs, **asked}}
    if inputs is None:
        return None if UNKNOWN in entries(outputs) else outputs
    return inputs


def to_resource(resource: PolicyResource, inputs: Properties | None) -> Resource:
    """Make the record of a resource from the stack view and from the inputs kept from the first view, if any."""
    outputs = to_value(resource.props)
    return Resource(
        type=resource.resource_type,
        urn=resource.urn,
        name=resource.name,
        props=fields(outputs if inputs is None else merge(inputs, outputs)),
        parent=resource.parent.urn if resource.parent is not None else None,
        dependencies=tuple(dependency.urn for dependency in resource.dependencies),
        property_dependencies={
            key: tuple(source.urn for source in sources) for key, sources in resource.property_dependencies.items()
        },
    )


@dataclass(frozen=True, slots=True)
class Session:
    """One run of the pack: the inputs of the resources that were analyzed so far, by URN."""

    inputs: dict[str, Properties] = field(default_factory=dict[str, Properties])

    def resource(self, args: ResourceValidationArgs) -> Resource:
        """Make the record of one resource from its inputs, and keep the inputs for the stack view."""
        props = fields(to_value(args.props))
        self.inputs[args.urn] = props
        return Resource(type=args.resource_type, urn=args.urn, name=args.name, props=props, parent=args.opts.parent)

    def graph(self, args: StackValidationArgs) -> Graph:
        """Make the graph of the whole stack."""
        return Graph(tuple(to_resource(resource, self.inputs.get(resource.urn)) for resource in args.resources))


def policies(rules: Sequence[Rule]) -> list[Policy]:
    """Turn each rule into a policy of the SDK, and add the two that list what could not be checked.

    A policy has one enforcement level, so a mandatory one cannot make a remark: two advisory policies make them.
    """
    session = Session()
    of_resource = [rule for rule in rules if isinstance(rule, ResourceRule)]
    of_stack = [rule for rule in rules if isinstance(rule, StackRule)]
    return [
        *(_resource_policy(session, rule.id, rule.what, [rule], "violation", rule.advisory) for rule in of_resource),
        _resource_policy(session, NOT_CHECKED, _NOT_CHECKED_WHAT, of_resource, "not-checked", advisory=True),
        *(_stack_policy(session, rule.id, rule.what, [rule], "violation", rule.advisory) for rule in of_stack),
        _stack_policy(session, NOT_CHECKED_STACK, _NOT_CHECKED_WHAT, of_stack, "not-checked", advisory=True),
    ]


def _resource_policy(
    session: Session, name: str, what: str, rules: Sequence[ResourceRule], level: Level, advisory: bool
) -> Policy:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        resource = session.resource(args)
        for rule in rules:
            _report(report, rule, level, rule.check(resource))

    return ResourceValidationPolicy(name=name, description=what, validate=validate, enforcement_level=_level(advisory))


def _stack_policy(
    session: Session, name: str, what: str, rules: Sequence[StackRule], level: Level, advisory: bool
) -> Policy:
    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        graph = session.graph(args)
        for rule in rules:
            _report(report, rule, level, rule.check(graph))

    return StackValidationPolicy(name=name, description=what, validate=validate, enforcement_level=_level(advisory))


def _report(report: ReportViolation, rule: Rule, level: Level, found: Iterable[Finding]) -> None:
    for finding in found:
        if finding.level == level:
            message = finding.message if level == "violation" else f"{rule.id}: {finding.message}"
            report(message, finding.resource.urn)


def _level(advisory: bool) -> EnforcementLevel:
    return EnforcementLevel.ADVISORY if advisory else EnforcementLevel.MANDATORY
