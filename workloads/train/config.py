"""The configuration of a run: sections that know their own fields, and one reader that names everything wrong at once."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .checkpoint.config import CheckpointConfig
from .data.config import DataConfig
from .errors import UsageError
from .plan.config import PlanConfig
from .sections import (
    AnomalyConfig,
    EvaluateConfig,
    FaultConfig,
    ModelConfig,
    OptimizerConfig,
    PrecisionConfig,
    RunConfig,
    TrainConfig,
)
from .transport.config import TransportConfig

Values = dict[str, Any]
"""A section's values by key; a section by its name."""


class Config(BaseModel):
    """One run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: RunConfig = Field(description="which run this is, and on what it runs")
    model: ModelConfig = Field(description="what is trained")
    train: TrainConfig = Field(default_factory=TrainConfig, description="how long and on how much")
    data: DataConfig = Field(default_factory=DataConfig, description="what it is trained on")
    optimizer: OptimizerConfig = Field(default_factory=OptimizerConfig, description="AdamW and its schedule")
    precision: PrecisionConfig = Field(default_factory=PrecisionConfig, description="in what numbers")
    plan: PlanConfig = Field(
        default_factory=lambda: PlanConfig.model_validate({}), description="what is not to be chosen"
    )
    checkpoint: CheckpointConfig = Field(
        default_factory=lambda: CheckpointConfig.model_validate({}), description="what is kept, and when"
    )
    evaluate: EvaluateConfig = Field(default_factory=EvaluateConfig, description="whether it has learned")
    transport: TransportConfig = Field(default_factory=TransportConfig, description="what must carry the traffic")
    anomaly: AnomalyConfig = Field(default_factory=AnomalyConfig, description="steps that are not to be trusted")
    fault: FaultConfig = Field(default_factory=FaultConfig, description="a fault on purpose")

    @property
    def global_batch_tokens(self) -> int:
        """Return the tokens of one optimizer step, of all ranks."""
        return self.train.global_batch_tokens or 8 * self.data.sequence_length * self.run.world_size

    @property
    def compile(self) -> bool:
        """Return whether blocks are compiled."""
        return self.run.device == "cuda" if self.train.compile is None else self.train.compile

    def problems(self) -> list[str]:
        """Return what does not go together, one line each."""
        sections = (self.run, self.data, self.plan, self.checkpoint, self.evaluate, self.transport, self.fault)
        found = [line for section in sections for line in section.problems()]
        unit = self.data.sequence_length * self.run.world_size
        if self.global_batch_tokens % unit:
            found.append(
                f"train.global_batch_tokens: found {self.global_batch_tokens}; allowed: a multiple of {unit}, data.sequence_length "
                f"{self.data.sequence_length} x {self.run.world_size} ranks; set {max(1, round(self.global_batch_tokens / unit)) * unit}"
            )
        if self.fault.rank is not None and self.fault.rank >= self.run.world_size:
            found.append(
                f"fault.rank: found {self.fault.rank}; allowed: below {self.run.world_size}, the number of ranks"
            )
        return found


def from_json(text: str, source: str = "configuration") -> Config:
    """Read a configuration. Raises UsageError, with every problem, one a line."""
    return validated(read_json(text, source))


def read_json(text: str, source: str) -> Values:
    """Return the sections of a JSON text.

    Raises:
        UsageError: it is no JSON object of objects.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{source}: {error}; allowed: JSON") from error
    if not isinstance(found, dict) or not all(
        isinstance(section, dict) for section in cast(Mapping[str, object], found).values()
    ):
        raise UsageError(f'{source}: allowed: a JSON object of sections, as {{"train": {{"steps": 100}}}}')
    return cast(Values, found)


def read_file(path: str) -> Values:
    """Return the sections of a JSON file. Raises UsageError."""
    try:
        return read_json(Path(path).read_text(encoding="utf-8"), f"--config {path}")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--config: cannot read {path}: {error}") from error


def validated(values: Values, names: Mapping[str, str] | None = None, problems: Sequence[str] = ()) -> Config:
    """Return the configuration of these sections.

    Args:
        values: sections by name.
        names: how the user gave a key, where not as `section.key`: {"train.steps": "--steps"}.
        problems: what is known to be wrong already.

    Raises:
        UsageError: with every problem, one a line, those given first.
    """
    known = names or {}
    found = list(problems)
    config: Config | None = None
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        found += [line for line in _lines(error, known) if line not in found]
    if config is not None:
        found += [_renamed(line, known) for line in config.problems()]
    if found or config is None:
        raise UsageError("\n".join(found))
    return config


def keys() -> dict[str, tuple[str, str, str]]:
    """Return every key with what is allowed, its default and what it is for."""
    schema = Config.model_json_schema()
    found: dict[str, tuple[str, str, str]] = {}
    for section, reference in schema["properties"].items():
        described = _resolved(schema, reference)
        for key, value in described["properties"].items():
            default = "needed" if key in described.get("required", ()) else json.dumps(value.get("default"))
            found[f"{section}.{key}"] = (_allowed(value), default, value.get("description", ""))
    return found


def _lines(error: ValidationError, names: Mapping[str, str]) -> list[str]:
    allowed = {key: value[0] for key, value in keys().items()}
    found: dict[str, str] = {}
    for one in error.errors(include_url=False):
        place = [str(part) for part in one["loc"]]
        key = ".".join(place[:2])
        shown = names.get(key, key)
        if one["type"] == "extra_forbidden":
            near = ", ".join(name for name in allowed if name.startswith(f"{place[0]}.")) or ", ".join(
                Config.model_fields
            )
            found.setdefault(key, f"{shown}: unknown key; allowed: {near}")
        elif one["type"] == "missing" and len(place) == 1:
            # A section that is not there: what it needs is missing.
            needed = (name for name, value in keys().items() if name.startswith(f"{key}.") and value[1] == "needed")
            for name in needed:
                found.setdefault(name, f"{names.get(name, name)}: found nothing; allowed: {allowed[name]}; set it")
        else:
            value = "nothing" if one["type"] == "missing" else repr(one["input"])
            found.setdefault(key, f"{shown}: found {value}; allowed: {allowed.get(key, one['msg'])}; set it so")
    return list(found.values())


def _renamed(line: str, names: Mapping[str, str]) -> str:
    key, separator, rest = line.partition(":")
    return f"{names.get(key, key)}{separator}{rest}"


def _resolved(schema: Mapping[str, Any], reference: Mapping[str, Any]) -> Mapping[str, Any]:
    named = reference.get("$ref") or reference["allOf"][0]["$ref"]
    return schema["$defs"][named.rpartition("/")[2]]


_WORDS = {"boolean": "true or false", "string": "a text", "number": "a number", "integer": "a whole number"}
_LIMITS = (
    ("minimum", "of at least"),
    ("exclusiveMinimum", "above"),
    ("maximum", "of at most"),
    ("exclusiveMaximum", "below"),
)
_PATTERNS = {
    RunConfig.model_json_schema()["properties"]["name"][
        "pattern"
    ]: "letters, digits, dots, dashes and underscores, 128 at most",
    RunConfig.model_json_schema()["properties"]["storage_path"]["pattern"]: "s3://BUCKET/PREFIX or an absolute path",
    "^/": "an absolute path",
}


def _allowed(field: Mapping[str, Any]) -> str:
    """Return in words what the JSON schema of a field allows."""
    if "anyOf" in field:
        return " or ".join("null" if one.get("type") == "null" else _allowed(one) for one in field["anyOf"])
    if "enum" in field:
        return " or ".join(str(one) for one in field["enum"])
    if "const" in field:
        return str(field["const"])
    if "pattern" in field:
        return _PATTERNS[field["pattern"]]
    if field.get("minLength"):
        return "a text that is not empty"
    limits = [f"{words} {field[name]}" for name, words in _LIMITS if name in field]
    return " ".join([_WORDS[field["type"]], " and ".join(limits)]).strip()
