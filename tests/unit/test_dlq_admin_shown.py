"""Payloads as the desk shows them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from celeriac.redaction import redactor
from dlq_admin.shown import LARGEST, Unreadable, arguments, difference, masked, parse, pretty


@pytest.mark.parametrize(
    "value",
    [
        ["\x00", "\ud800 \udc00", "\udfff", "\x7f\u2028", "中文", "\\ud800"],
        {"\ud800": {"\x00": 10**40}},
        [0.1, None],
        [],
    ],
)
def test_what_is_shown_can_be_encoded_and_reads_as_the_same_value(value: Any) -> None:
    shown = pretty(value)
    assert json.loads(shown.encode("utf-8")) == value
    assert "\x00" not in shown


def test_other_scripts_are_readable() -> None:
    assert "余额不足" in pretty({"text": "余额不足"})


@pytest.mark.parametrize("stored", ["", "{", "nonsense", "[" * 100_000])
def test_what_is_no_json_is_unreadable(stored: str) -> None:
    with pytest.raises(Unreadable):
        parse(stored)


@pytest.mark.parametrize("stored", ["[]", "1", "null", '"text"'])
def test_a_payload_that_is_no_object_has_no_arguments(stored: str) -> None:
    with pytest.raises(Unreadable):
        arguments(stored)


def test_only_the_arguments_are_shown_and_those_masked() -> None:
    stored = json.dumps({"args": [1], "kwargs": {"token": "abc"}, "headers": {"hidden": "yes"}})
    shown = masked(stored, redactor())
    assert shown is not None
    assert json.loads(shown) == {"args": [1], "kwargs": {"token": "••••"}}


def test_what_is_too_large_is_not_masked_in_part() -> None:
    assert masked(json.dumps({"args": ["x" * LARGEST]}), redactor()) is None


@pytest.mark.parametrize("word", ["x", "a_", "a.", "7", "deadbeef"])
def test_masking_the_largest_takes_no_noticeable_time(word: str) -> None:
    stored = json.dumps({"args": [word * ((LARGEST - 100) // len(word))]})
    began = time.process_time()
    assert masked(stored, redactor())
    assert time.process_time() - began < 1.0  # a quadratic search took half a minute


def lines(before: Any, after: Any) -> list[tuple[str, str]]:
    found = difference(before, after)
    assert found is not None
    return [(line.kind, line.text.strip()) for line in found]


def test_equal_arguments_do_not_differ() -> None:
    assert difference({"a": [1]}, {"a": [1]}) == []


def test_values_of_another_type_differ() -> None:
    assert lines([1], [1.0]) == [("same", "["), ("removed", "1"), ("added", "1.0"), ("same", "]")]


def test_a_change_is_shown_with_three_lines_around_it() -> None:
    before = list(range(20))
    after = [*before[:10], 99, *before[11:]]
    assert lines(before, after) == [
        ("gap", "⋮"),
        *[("same", f"{n},") for n in (7, 8, 9)],
        ("removed", "10,"),
        ("added", "99,"),
        *[("same", f"{n},") for n in (11, 12, 13)],
        ("gap", "⋮"),
    ]


def test_two_changes_far_apart_have_a_gap_between_them() -> None:
    before = list(range(30))
    after = [*before[:5], 99, *before[6:25], 98, *before[26:]]
    kinds = [kind for kind, _text in lines(before, after)]
    assert kinds.count("removed") == kinds.count("added") == 2
    assert kinds.count("gap") == 3


def test_a_large_payload_with_a_small_change_is_compared_at_once() -> None:
    before = [None] * 100_000
    after = [*before[:50_000], 1, *before[50_000:]]
    assert ("added", "1,") in lines(before, after)


def test_what_differs_altogether_is_not_compared_line_by_line() -> None:
    assert difference(list(range(2000)), list(range(2000, 4000))) is None
