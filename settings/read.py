"""From the raw configuration of a stack to `Settings`, or every reason why not."""

import difflib
import json
import re
from collections.abc import Mapping
from typing import Any, cast

from pydantic import ValidationError

from settings.fields import Settings
from settings.problems import Problem, SettingsError
from settings.rules import RULES
from settings.schema import PROJECT, Key, groups, keys


def parse(config: Mapping[str, object], *, stack: str) -> Settings:
    """Return the settings of a stack.

    `config` maps full keys (`efa-ray-train:gpuNodeCount`, `aws:region`) to values, either as YAML gives them or as the engine does, with
    arrays and objects as JSON text. Keys of other namespaces are not looked at.

    Raises:
        SettingsError: with every problem found, in the order of the keys.
    """
    problems = _unknown(config)
    good: dict[str, Any] = {}
    region = config.get("aws:region")
    if isinstance(region, str) and re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d", region):
        good["region"] = region
    else:
        fix = "pulumi config set aws:region us-east-2"
        problems.append(
            Problem(key="aws:region", found=_show(region), allowed="an AWS Region, such as us-east-2", fix=fix)
        )
    for key in keys().values():
        try:
            good[key.field] = _value(key, config)
        except _RefusedError as refused:
            problems.append(refused.problem)
    settings = _assemble(stack, good)
    problems += [problem for rule in RULES if rule.reads <= good.keys() for problem in rule.check(settings)]
    if problems:
        raise SettingsError(sorted(problems, key=_order))
    return settings


def _assemble(stack: str, good: Mapping[str, Any]) -> Settings:
    """Return the settings with the fields in `good` and no others, so that a rule which reads one it did not declare fails loudly."""
    settings = object.__new__(Settings)
    object.__setattr__(settings, "stack", stack)
    if "region" in good:
        object.__setattr__(settings, "region", good["region"])
    made: dict[str, object] = {name: object.__new__(cls) for name, cls in groups().items()}
    for key in keys().values():
        if key.field in good:
            object.__setattr__(made[key.group], key.field, good[key.field])
    for name, group in made.items():
        object.__setattr__(settings, name, group)
    return settings


class _RefusedError(Exception):
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


def _value(key: Key, config: Mapping[str, object]) -> Any:
    full = f"{PROJECT}:{key.name}"
    if full not in config:
        if key.required:
            raise _RefusedError(
                Problem(
                    key=key.name,
                    found="nothing",
                    allowed=key.description.rstrip("."),
                    fix=_set(key),
                )
            )
        return key.default
    raw = config[full]
    if _is_secret(raw):
        raise _RefusedError(
            Problem(
                key=key.name,
                found="a secret",
                allowed="plain text; no key holds a secret",
                fix="set it again without --secret",
            )
        )
    try:
        return key.validate(_decode(key, raw))
    except ValidationError as error:
        first = error.errors()[0]
        raise _RefusedError(
            Problem(
                key=key.name,
                found=_show(raw),
                allowed=_allowed(key, first["type"], first.get("ctx", {})),
                fix=_fix(key),
            )
        ) from error


def _is_secret(raw: object) -> bool:
    return isinstance(raw, Mapping) and "secure" in cast("Mapping[object, object]", raw)


def _decode(key: Key, raw: object) -> object:
    if key.pulumi_type in ("array", "object") and isinstance(raw, str):
        try:
            return json.loads(raw)
        except ValueError:
            return raw
    return raw


def _allowed(key: Key, kind: str, context: Mapping[str, Any]) -> str:
    if kind == "literal_error":
        return str(context["expected"])
    bounds = {"greater_than_equal": "ge", "less_than_equal": "le"}
    if kind in bounds:
        sign = ">=" if kind == "greater_than_equal" else "<="
        return f"{key.pulumi_type} {sign} {context[bounds[kind]]}"
    if kind == "string_pattern_mismatch":
        return key.form or f"text that matches {context['pattern']}"
    if kind == "string_too_short":
        return "text that is not empty"
    return {
        "array": "a list of text",
        "object": "a map of text to text",
        "integer": "an integer",
        "boolean": "true or false",
    }.get(key.pulumi_type, "text")


def _fix(key: Key) -> str:
    if key.required or key.pulumi_type == "array":
        return _set(key)
    default = json.dumps(key.default) if key.pulumi_type in ("array", "object", "boolean") else repr(key.default)
    return f"set it so, or remove it for the default {default}"


def _set(key: Key) -> str:
    # Without --path a list would be set as text again.
    where = f"--path '{key.name}[0]'" if key.pulumi_type == "array" else key.name
    return f"pulumi config set {where} {key.example}"


def _unknown(config: Mapping[str, object]) -> list[Problem]:
    found: list[Problem] = []
    for full in config:
        namespace, _, name = full.partition(":")
        if namespace == PROJECT and name not in keys():
            near = difflib.get_close_matches(name, keys(), n=1, cutoff=0.5)
            allowed = f"{near[0]} comes closest" if near else "the keys in Pulumi.yaml"
            fix = f"rename it to {near[0]}" if near else f"pulumi config rm {name}"
            found.append(Problem(key=name, found="a key that does not exist", allowed=allowed, fix=fix))
    return found


def _show(raw: object) -> str:
    return (
        "nothing" if raw is None or raw == "" else repr(raw) if isinstance(raw, str) else json.dumps(raw, default=str)
    )


def _order(problem: Problem) -> int:
    names = list(keys())
    return names.index(problem.key) if problem.key in names else -1
