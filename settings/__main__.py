"""Check a stack file alone, with no engine and no AWS: `.venv/bin/python -m settings Pulumi.dev.yaml [--json]`."""

import argparse
import dataclasses
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import yaml

from settings import Problem, SettingsError, parse
from settings.warnings import warnings

STACK_FILE = re.compile(r"Pulumi\.(?P<stack>[\w.-]+)\.ya?ml")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print every problem of a stack file, one a line; return 0 when there is none, else 2."""
    parser = argparse.ArgumentParser(prog="python -m settings", description=__doc__)
    parser.add_argument("file", type=Path, help="a stack file, as Pulumi.dev.yaml")
    parser.add_argument("--json", action="store_true", help="print one JSON object: {stack, ok, problems, warnings}")
    options = parser.parse_args(arguments)
    named = STACK_FILE.fullmatch(options.file.name)
    stack = named["stack"] if named else options.file.stem
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    try:
        notes = tuple(warnings(parse(_config(options.file), stack=stack)))
    except SettingsError as error:
        problems = error.problems
    if options.json:
        found = [dataclasses.asdict(problem) for problem in problems]
        print(json.dumps({"stack": stack, "ok": not problems, "problems": found, "warnings": notes}))
    else:
        for problem in problems:
            print(problem)
        for note in notes:
            print(f"warning: {note}")
        if not problems:
            print(f"{options.file}: good")
    return 2 if problems else 0


def _config(file: Path) -> Mapping[str, object]:
    try:
        text = file.read_text()
        document: object = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise SettingsError(
            [
                Problem(
                    key=str(file), found=reason, allowed="a readable YAML stack file", fix="check the path and the YAML"
                )
            ]
        ) from error
    config = cast("Mapping[str, object]", document).get("config") if isinstance(document, Mapping) else None
    if not isinstance(config, Mapping):
        raise SettingsError(
            [
                Problem(
                    key=str(file),
                    found="no `config:` map",
                    allowed="a Pulumi stack file",
                    fix="start from Pulumi.dev.yaml",
                )
            ]
        )
    return {str(key): value for key, value in cast("Mapping[object, object]", config).items()}


if __name__ == "__main__":
    sys.exit(main())
