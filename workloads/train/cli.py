"""The command line: a file, single keys, and short names for what most runs set; checked all at once."""

import argparse
import json
import os
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from .config import Config, Values, keys, read_file, validated
from .errors import UsageError

SHORT: Mapping[str, str] = {
    "--model": "model.name",
    "--storage-path": "run.storage_path",
    "--record-path": "run.record_path",
    "--run-name": "run.name",
    "--num-nodes": "run.num_nodes",
    "--gpus-per-node": "run.gpus_per_node",
    "--ranks-per-node": "run.ranks_per_node",
    "--network": "transport.expect",
    "--device": "run.device",
    "--steps": "train.steps",
    "--checkpoint-every": "checkpoint.every",
    "--max-restarts": "run.max_restarts",
}
FAIL_AT_STEP = "--fail-at-step"


def parse(arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> Config:
    """Read the command line. A later source wins: the file, then the short names, then --set.

    Raises:
        UsageError: with everything that is wrong, one a line.
    """
    given, unknown = _parser().parse_known_args(arguments)
    problems = [f"{word}: unknown argument; see --help" for word in unknown]
    values: Values = {}
    if given.config is not None:
        try:
            values = read_file(given.config)
        except UsageError as error:
            problems.append(str(error))
    _torchrun(values, os.environ if environment is None else environment)
    names: dict[str, str] = {}
    for flag, key in SHORT.items():
        raw: str | None = getattr(given, flag.removeprefix("--").replace("-", "_"))
        if raw is not None:
            _put(values, key, raw)
            names[key] = flag
        elif _absent(values, key):
            # Where it is missing, the short name is what people know.
            names[key] = flag
    if given.fail_at_step is not None:
        problems += _fail_at_step(values, given.fail_at_step)
    for word in given.set:
        key, separator, raw = str(word).partition("=")
        if not separator or key.count(".") != 1:
            problems.append(f"--set: found {word!r}; allowed: section.key=value; see --help for the keys")
            continue
        try:
            _put(values, key, _value(raw))
        except ValueError as error:
            problems.append(f"--set {key}: found {raw!r}: {error}; allowed: a value or JSON")
        names.pop(key, None)
    return validated(values, names, problems)


def _torchrun(values: Values, environment: Mapping[str, str]) -> None:
    """Take from torchrun what Ray is told by arguments."""
    if "LOCAL_WORLD_SIZE" not in environment or "WORLD_SIZE" not in environment:
        return
    local = int(environment["LOCAL_WORLD_SIZE"])
    values["run"] = {
        "num_nodes": int(environment["WORLD_SIZE"]) // local,
        "gpus_per_node": local,
        **values.get("run", {}),
    }


def _fail_at_step(values: Values, raw: str) -> list[str]:
    if not (raw.isascii() and raw.isdigit() and int(raw) >= 1):
        return [f"{FAIL_AT_STEP}: found {raw!r}; allowed: a whole number of at least 1; set it so"]
    _put(values, "fault.point", f"after-step-{raw}")
    return []


def _put(values: Values, key: str, value: object) -> None:
    section, _, name = key.partition(".")
    values[section] = {**values.get(section, {}), name: value}


def _absent(values: Values, key: str) -> bool:
    section, _, name = key.partition(".")
    return name not in values.get(section, {})


def _value(raw: str) -> Any:
    """Return a text as it is, for its field to read; null, lists and objects from JSON."""
    return json.loads(raw) if raw == "null" or raw[:1] in ("[", "{") else raw


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see --help")


def _parser() -> argparse.ArgumentParser:
    """Return a parser that takes every value as it is: what is wrong is said later, all together."""
    described = keys()
    parser = _Parser(
        prog="train",
        description="Train a causal language model with FSDP2: as a job of a Ray cluster, or under torchrun.",
        epilog=_help(described),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--config", metavar="FILE", help="JSON file of sections; see below for the keys")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="set one key; may be given often"
    )
    for flag, key in SHORT.items():
        parser.add_argument(flag, metavar="VALUE", help=f"short for {key}: {_plain(described[key][2])}")
    parser.add_argument(
        FAIL_AT_STEP, metavar="STEP", help="short for fault.point after-step-STEP: the last rank raises"
    )
    return parser


def _help(described: Mapping[str, tuple[str, str, str]]) -> str:
    lines = [
        "keys, with what is allowed and the default:",
        *(
            textwrap.fill(
                f"{key} ({allowed}; {'needed' if default == 'needed' else f'default: {default}'}): {what}",
                width=118,
                initial_indent="  ",
                subsequent_indent="      ",
            )
            for key, (allowed, default, what) in described.items()
        ),
        "",
        "example on one machine, without Ray:",
        "  torchrun --nproc-per-node=2 -m train --model=tiny-qwen2 --device=cpu --run-name=first --storage-path=/tmp/runs \\",
        "    --steps=20 --set data.sequence_length=128 --set optimizer.learning_rate=3e-3",
        "",
        "exit code: 0 the run succeeded, 1 it failed, 2 wrong arguments, 143 stopped by SIGTERM after saving",
    ]
    return "\n".join(lines)


def _plain(text: str) -> str:
    return text.replace("%", "%%")
