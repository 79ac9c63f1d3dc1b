"""Write a page from a raw log: `python -m benchmarks.train.report LOG --page docs/benchmarks/train-h200.md --title TITLE --who WHO`.

The page has what one needs to repeat it: who, model, hardware, configuration of each row, versions, date, and the log. Beside it a picture
(SVG) shows predicted against measured step times where there are predictions.
"""

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

from workloads.train.errors import UsageError

from .point import Point
from .rows import Line, Row, read, rows, table

SIZE, EDGE = 420, 56
_BAND: Final = 0.15
"""Part by which a prediction may be off."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write page and picture; return 0, or 2 for a log that is none."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.train.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("log", type=Path, help="what --json-lines of the benchmark wrote")
    parser.add_argument("--page", type=Path, required=True, help="Markdown file to write")
    parser.add_argument("--title", default="Training Qwen2.5-1.5B", help="heading of the page")
    parser.add_argument("--who", default="the maintainers of efa-ray-train", help="who measured")
    parser.add_argument("--against", default="T+", help="row that the others are divided by (default T+)")
    given = parser.parse_args(arguments)
    try:
        lines = read(given.log)
        found = rows(lines)
    except UsageError as error:
        print(f"benchmarks.train.report: {error}", file=sys.stderr)
        return error.exit_code
    if not any(row.rate for row in found):
        said = f"{given.log}: found no row that was measured; allowed: a log of benchmarks.train; measure first"
        print(f"benchmarks.train.report: {said}", file=sys.stderr)
        return 2
    picture = plot(found)
    place = given.page.with_suffix(".svg")
    given.page.parent.mkdir(parents=True, exist_ok=True)
    if picture is not None:
        place.write_text(picture, encoding="utf-8")
    log = os.path.relpath(Path(given.log).resolve(), Path(given.page).parent.resolve())
    text = page(lines, found, given.title, given.who, given.against, log, place.name if picture else None)
    given.page.write_text(text, encoding="utf-8")
    return 0


def page(
    lines: Sequence[Line], found: Sequence[Row], title: str, who: str, against: str, log: str, picture: str | None
) -> str:
    """Return the page as Markdown."""
    good = [line for line in lines if line.get("outcome") == "ok"]
    first, last = good[0], good[-1]
    base = next((row.rate.median for row in found if row.name == against and row.rate), None)
    parts = [f"# {title}", ""]
    parts += [
        f"- Who: {who}",
        f"- Model: {', '.join(sorted({line['point']['model'] for line in good}))}, {first['parameters']:,} parameters "
        f"({found[0].name}), random weights and tokens from seeds",
        f"- Hardware: {first['world_size']} x {first['gpu']}, bf16 matrix products at "
        f"{_range([line['gemm_flops'] / 1e12 for line in good], '.0f')} TFLOP/s (8192 wide, random numbers, before each row)",
        f"- Versions: torch {first['torch']}, NCCL {first['nccl'] or 'none'}, transformers {first['transformers']}",
        f"- Date: {first['date'][:10]}"
        + (f" to {last['date'][:10]}" if last["date"][:10] != first["date"][:10] else ""),
        "- Order: forwards, then backwards; each run in fresh processes; medians over the runs of a row",
        f"- Raw log: [{Path(log).name}]({log})",
        "",
    ]
    parts += _markdown(_compared(found, base, against))
    parts += [
        "",
        "MFU counts model FLOPs (6 per parameter and token, attention without the causal discount, nothing that is",
    ]
    parts += [
        "recomputed) over the card's dense bf16 peak; `of GEMM` over the rate of matrix products measured beside the row.",
        "",
    ]
    if picture is not None:
        parts += ["## Predicted against measured", "", f"![step seconds, predicted against measured]({picture})", ""]
        parts += [_accuracy(found), ""]
    parts += _profiles(found)
    parts += ["## Configuration of each row", ""]
    parts += [f"- {row.name}: {_configuration(row)}" for row in found]
    return "\n".join(parts) + "\n"


def _compared(found: Sequence[Row], base: float | None, against: str) -> list[tuple[str, ...]]:
    heading, *lines = table(found)
    ratios = [f"{row.rate.median / base:.2f}" if row.rate and base else "" for row in found]
    return [(*heading, f"/ {against}"), *((*line, ratio) for line, ratio in zip(lines, ratios, strict=True))]


def _markdown(lines: Sequence[Sequence[str]]) -> list[str]:
    heading, *rest = (f"| {' | '.join(line)} |" for line in lines)
    return [heading, "|" + "---|" * len(lines[0]), *rest]


def _configuration(row: Row) -> str:
    """Return what differs from the defaults of a point, and what the row found."""
    made = Point.model_validate(row.point)
    told = made.model_dump(mode="json", exclude_defaults=True, exclude={"name", "expected_seconds", "profile"})
    words = [
        f"{key} {' '.join(cast(list[str], value)) if isinstance(value, list) else value}" for key, value in told.items()
    ]
    words.append(f"recompute {made.activation_checkpoint}")
    if row.rate is not None:
        words.append(f"attention {row.last['attention']}")
        words += row.last["features"]
    else:
        words.append(str(row.last.get("said", row.outcome)))
    return "; ".join(dict.fromkeys(words))


def _range(values: Sequence[float], form: str) -> str:
    least, most = format(min(values), form), format(max(values), form)
    return least if least == most else f"{least} to {most}"


def _accuracy(found: Sequence[Row]) -> str:
    both = [row for row in found if row.step and row.expected]
    near = sum(abs(row.expected / row.step.median - 1) <= _BAND for row in both if row.step and row.expected)
    return f"{near} of {len(both)} predictions are within {_BAND:.0%} of what was measured."


def _profiles(found: Sequence[Row]) -> list[str]:
    traced = [row for row in found if row.last.get("profile")]
    if not traced:
        return []
    parts = [
        "## Where a step's GPU time goes",
        "",
        "Milliseconds of one traced step; kernels of several streams overlap.",
        "",
    ]
    kinds = list(dict.fromkeys(kind for row in traced for kind in row.last["profile"]["kinds"]))
    lines = [("row", *kinds)]
    for row in traced:
        known = row.last["profile"]["kinds"]
        lines.append((row.name, *(f"{known.get(kind, 0.0):.1f}" for kind in kinds)))
    return [*parts, *_markdown(lines), ""]


def plot(found: Sequence[Row]) -> str | None:
    """Return an SVG of predicted (across) against measured (up) seconds of a step, both by powers of ten; None without predictions."""
    dots = [(row.name, row.expected, row.step.median) for row in found if row.step and row.expected]
    if not dots:
        return None
    values = [value for _, *pair in dots for value in pair]
    low, high = math.log10(min(values)) - 0.1, math.log10(max(values)) + 0.1

    def across(seconds: float) -> float:
        return round(EDGE + (math.log10(seconds) - low) / (high - low) * (SIZE - 2 * EDGE), 1)

    def up(seconds: float) -> float:
        return round(SIZE - across(seconds), 1)

    start, end = 10**low, 10**high
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE}" font-family="sans-serif" font-size="11">',
        f'<rect width="{SIZE}" height="{SIZE}" fill="white"/>',
        f'<rect x="{EDGE}" y="{EDGE}" width="{SIZE - 2 * EDGE}" height="{SIZE - 2 * EDGE}" fill="none" stroke="#888"/>',
        f'<line x1="{across(start)}" y1="{up(start)}" x2="{across(end)}" y2="{up(end)}" stroke="#444"/>',
    ]
    for part in (1 + _BAND, 1 / (1 + _BAND)):
        first, last = max(start, start / part), min(end, end / part)
        parts.append(
            f'<line x1="{across(first)}" y1="{up(first * part)}" x2="{across(last)}" y2="{up(last * part)}" '
            'stroke="#aaa" stroke-dasharray="4"/>'
        )
    for tick in _ticks(start, end):
        parts.append(f'<text x="{across(tick)}" y="{SIZE - EDGE + 14}" text-anchor="middle">{tick:g}</text>')
        parts.append(f'<text x="{EDGE - 4}" y="{up(tick) + 4}" text-anchor="end">{tick:g}</text>')
    for name, expected, measured in dots:
        safe = name.replace("&", "&amp;").replace("<", "&lt;")
        parts.append(
            f'<circle cx="{across(expected)}" cy="{up(measured)}" r="4" fill="#1f77b4" fill-opacity="0.7">'
            f"<title>{safe}: predicted {expected:.3g} s, measured {measured:.3g} s</title></circle>"
        )
    middle = SIZE / 2
    parts += [
        f'<text x="{middle}" y="{SIZE - 14}" text-anchor="middle">predicted seconds of a step</text>',
        f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">measured seconds of a step</text>',
        f'<text x="{middle}" y="{EDGE - 20}" text-anchor="middle">dashed: {_BAND:.0%} off</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _ticks(start: float, end: float) -> list[float]:
    steps: list[Any] = [1, 1.5, 2, 3, 5, 7] if end / start < 30 else [1, 3]
    found = [step * 10**power for power in range(-4, 4) for step in steps]
    return [round(value, 6) for value in found if start <= value <= end]


if __name__ == "__main__":
    sys.exit(main())
