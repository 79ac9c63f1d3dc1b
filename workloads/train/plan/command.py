"""The command `plan --what-if`: what a model would do on machines that are not here. It needs no GPU, no network and no Ray."""

import argparse
import json
from collections.abc import Sequence
from typing import NoReturn

from ..errors import UsageError
from .instances import INSTANCES, Instance, instance
from .shapes import SHAPES, shape_by_name
from .what_if import TOKENS_PER_RANK, render, row


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and return 0.

    Raises:
        UsageError: with every wrong argument, one a line.
    """
    values, unknown = _parser().parse_known_args(arguments)
    problems = [f"{word}: unknown argument; see --help" for word in unknown]
    if not values.what_if:
        problems.append(
            "--what-if: found nothing; allowed: --what-if, as a real plan is made by the run that measures its machines"
        )
    nodes = _numbers("--nodes", values.nodes, problems)
    length = _numbers("--sequence-length", values.sequence_length, problems, one=True)
    batch = (
        _numbers("--global-batch-tokens", values.global_batch_tokens, problems, one=True)
        if values.global_batch_tokens
        else [None]
    )
    kinds: list[Instance] = []
    for name in str(values.instance).split(","):
        try:
            kinds.append(instance(name))
        except UsageError as error:
            problems.append(str(error))
    shape = None
    try:
        shape = shape_by_name(values.model)
    except UsageError as error:
        problems.append(str(error))
    if problems or shape is None:
        raise UsageError("\n".join(problems))
    rows = [
        row(shape, kind, count, sequence_length=length[0], global_batch_tokens=batch[0])
        for kind in kinds
        for count in nodes
    ]
    if values.json:
        told = {"model": values.model, "sequence_length": length[0], "rows": [one.to_json() for one in rows]}
        print(json.dumps(told, indent=2))
    else:
        print(render(values.model, shape, rows, length[0]))
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see --help")


def _parser() -> argparse.ArgumentParser:
    """Return a parser that takes every value as it is: what is wrong is said later, all together."""
    parser = _Parser(prog="train plan", description=__doc__, allow_abbrev=False)
    parser.add_argument("--what-if", action="store_true", help="predict from datasheets and published measurements")
    parser.add_argument(
        "--model",
        default="qwen2.5-1.5b",
        help=f"{', '.join(SHAPES)}, a folder with a config.json, a Hugging Face id or an S3 prefix",
    )
    parser.add_argument("--nodes", default="2,4,16,64", help="numbers of nodes, with commas; default: %(default)s")
    parser.add_argument(
        "--instance",
        default="g6.12xlarge,p5.48xlarge",
        help=f"instance types, with commas: {', '.join(INSTANCES)}; default: %(default)s",
    )
    parser.add_argument("--sequence-length", default="2048", help="tokens of a sequence; default: %(default)s")
    parser.add_argument(
        "--global-batch-tokens",
        help=f"tokens of a step, the same in every row; default: {TOKENS_PER_RANK} for each GPU",
    )
    parser.add_argument("--json", action="store_true", help="print JSON with all terms, for programs")
    return parser


def _numbers(name: str, raw: str, problems: list[str], *, one: bool = False) -> list[int]:
    words = raw.split(",")
    if all(word.isascii() and word.isdigit() and int(word) >= 1 for word in words) and (len(words) == 1 or not one):
        return [int(word) for word in words]
    allowed = "a whole number of at least 1" if one else "whole numbers of at least 1, with commas between them"
    problems.append(f"{name}: found {raw!r}; allowed: {allowed}")
    return [1]
