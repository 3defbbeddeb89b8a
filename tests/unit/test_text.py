"""Whatever a task says can be stored."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from celeriac.text import safe_str, storable

ANYTHING = st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF))  # surrogates and NUL included


@given(ANYTHING)
def test_any_text_becomes_one_that_the_database_takes(value: str) -> None:
    stored = storable(value)
    assert "\x00" not in stored
    stored.encode("utf-8")


@given(ANYTHING, st.integers(1, 50))
def test_a_limit_is_kept_whatever_the_escapes_add(value: str, limit: int) -> None:
    assert len(storable(value, limit)) <= limit


def test_ordinary_text_is_left_as_it_is() -> None:
    assert storable("naïve ✓ 漢字 😀\n") == "naïve ✓ 漢字 😀\n"


def test_what_a_column_refuses_is_written_as_an_escape() -> None:
    assert storable("a\x00b") == "a\\x00b"
    assert storable("a\ud800b") == "a\\ud800b"


def test_what_is_cut_shows_that_it_was() -> None:
    assert storable("abcdef", 4) == "abc…"
    assert storable("abcd", 4) == "abcd"


def test_an_object_that_cannot_say_what_it_is_gets_named() -> None:
    class Hostile:
        def __str__(self) -> str:
            raise ZeroDivisionError

    said = safe_str(Hostile())
    assert "Hostile" in said
    assert "ZeroDivisionError" in said
