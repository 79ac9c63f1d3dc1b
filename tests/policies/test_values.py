from fractions import Fraction

import pytest

from policies.values import UNKNOWN, Value, at, entries, number, quantity, show, truth


def test_at_distinguishes_absent_from_unknown() -> None:
    value: Value = {"a": [{"b": UNKNOWN, "c": 1}], "d": UNKNOWN}
    assert at(value, "a", 0, "c") == 1
    assert at(value, "a", 0, "b", "deeper") is UNKNOWN
    assert at(value, "d", 3) is UNKNOWN
    assert at(value, "a", 1, "b") is None
    assert at(value, "a", "b") is None
    assert at("text", 0) is None


def test_entries_reads_absent_single_and_unknown() -> None:
    assert entries(None) == []
    assert entries("one") == ["one"]
    assert entries([1, UNKNOWN]) == [1, UNKNOWN]
    assert entries(UNKNOWN) == [UNKNOWN]


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        ("4", Fraction(4)),
        (4, Fraction(4)),
        (0.5, Fraction(1, 2)),
        ("500m", Fraction(1, 2)),
        ("1k", Fraction(1000)),
        ("1Ki", Fraction(1024)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("160Gi", Fraction(160 * 2**30)),
        ("Gi", None),
        ("", None),
        ("4 GPUs", None),
        ("1Mm", None),
        (True, None),
        (None, None),
    ],
)
def test_quantity_reads_kubernetes_amounts(value: Value, amount: Fraction | None) -> None:
    assert quantity(value) == amount


@pytest.mark.parametrize(
    ("value", "whole"),
    [(1, 1), (2.0, 2), ("3", 3), ("-1", -1), (1.5, None), ("x", None), (True, None), (UNKNOWN, None)],
)
def test_number_reads_whole_numbers(value: Value, whole: int | None) -> None:
    assert number(value) == whole


@pytest.mark.parametrize(
    ("value", "flag"), [(True, True), ("true", True), ("True", True), ("false", False), (None, False), (1, False)]
)
def test_truth_reads_flags_in_words(value: Value, flag: bool) -> None:
    assert truth(value) is flag


def test_truth_keeps_an_unknown() -> None:
    assert truth(UNKNOWN) is UNKNOWN


def test_show_words_a_value() -> None:
    assert [show(value) for value in (None, True, "a", 2, UNKNOWN)] == [
        "nothing",
        "true",
        '"a"',
        "2",
        "a value known only at up",
    ]
