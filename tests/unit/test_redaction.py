"""Secrets are masked wherever text leaves the database, and what is no secret stays readable."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celeriac.redaction import MASK, SECRET_NAMES, Redactor, redactor

mask = redactor()

SECRETS = {
    "phone": "13812345678",
    "phone with country": "+8613812345678",
    "phone with blanks": "+1 555 123 4567",
    "phone in brackets": "(555) 123-4567",
    "card": "4111111111111111",
    "card in groups": "4111 1111 1111 1111",
    "card with dashes": "5500-0000-0000-0004",
    "id card": "11010519900101123X",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "api key": "sk_live_abcdefghijklmnop",
    "access key": "AKIAABCDEFGHIJKLMNOP",
    "e-mail": "jane.doe+shop@mail.example.com",
    "long hex": "0123456789abcdef0123456789abcdef01234567",
}
AROUND = [
    "{}",
    "({})",
    "value={}",
    "could not reach {}: refused",
    "['{}', 5]",
    '{{"note": "{}"}}',
    "ValueError('{}')",
    "line one\n{}\nline three",
]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
def test_a_secret_is_masked_whatever_stands_around_it(secret: str, around: str) -> None:
    masked = mask.text(around.format(secret))
    assert secret not in masked
    assert MASK in masked


@pytest.mark.parametrize("secret", [SECRETS["phone"], SECRETS["card"], SECRETS["id card"]])
def test_of_a_number_the_last_two_characters_stay_so_that_two_cases_can_be_told_apart(secret: str) -> None:
    assert mask.text(secret) == MASK + secret[-2:]


@pytest.mark.parametrize(
    "text",
    [
        "order 42 of customer 7 costs 19.90",
        "2026-03-04 05:06:07.123456+00:00",
        "job 0191b5a4-7c9e-7abc-8def-0123456789ab ended",
        'File "/srv/shop/sms.py", line 1234, in notify',
        "https://shop.example.com/orders/42?page=3",
        "celeriac.errors.WorkerLost: child 4711 was killed by signal 9 (SIGKILL)",
        "(1, 2, 3) {'order_id': 1234567, 'retry': True}",
        "author: Jane, keyboard=qwerty, passage=3",
    ],
)
def test_what_is_no_secret_stays_as_it_is(text: str) -> None:
    assert mask.text(text) == text


@pytest.mark.parametrize("name", sorted(SECRET_NAMES))
@pytest.mark.parametrize(
    "form", ["{}='hunter2 x'", '{}="hunter2 x"', "'{}': 'hunter2 x'", '"{}": "hunter2 x"', "{}: hunter2", "{}=hunter2"]
)
def test_a_value_under_a_secret_name_is_masked_in_every_way_of_writing_it(name: str, form: str) -> None:
    for written in (name, name.upper(), f"user_{name}", f"{name}-old"):
        assert "hunter2" not in mask.text(form.format(written)), form.format(written)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "Basic", "Token", "Digest"])
def test_an_authorization_header_loses_its_scheme_and_its_token(scheme: str) -> None:
    for token in ("abc", "abcdefghijkl"):
        assert token not in mask.text(f"Authorization: {scheme} {token}")
        assert token not in mask.text(f"{{'Authorization': '{scheme} {token}'}}")


def test_credentials_in_an_address_are_masked_and_the_address_stays() -> None:
    assert mask.text("redis://shop:hunter2@cache:6379/0 refused") == f"redis://{MASK}@cache:6379/0 refused"


def test_an_escaped_quote_does_not_end_a_masked_value_early() -> None:
    assert "hunter2" not in mask.text(r"{'password': 'a\'hunter2', 'order': 1}")


def test_structures_are_masked_by_name_and_by_pattern_at_every_depth() -> None:
    shown = mask.value({"phone": 1, "order": 42, "notes": ["4111111111111111", {"api_key": "x", "n": 13812345678}]})
    assert shown == {"phone": MASK, "order": 42, "notes": [f"{MASK}11", {"api_key": MASK, "n": f"{MASK}78"}]}


def test_a_secret_used_as_a_key_is_masked_too() -> None:
    assert mask.value({"13812345678": 1}) == {f"{MASK}78": 1}


def test_numbers_flags_and_nothing_keep_their_types() -> None:
    assert mask.value([1, 2.5, True, None]) == [1, 2.5, True, None]


def test_what_lies_too_deep_is_cut_and_not_shown() -> None:
    deep: object = "hunter2"
    for _ in range(20):
        deep = [deep]
    assert "hunter2" not in json.dumps(mask.value(deep))


def test_a_project_adds_names_and_patterns() -> None:
    own = Redactor(names=["Badge"], patterns=[r"EMP-\d+"])

    assert own.text("badge=77 of EMP-1234") == f"badge={MASK} of {MASK}"
    assert own.is_secret_name("badge")
    assert not mask.is_secret_name("badge")


@pytest.mark.parametrize("name", ["token", "TOKEN", "access_token", "token-id", "x.token", "user_phone"])
def test_a_name_is_secret_by_any_of_its_parts(name: str) -> None:
    assert mask.is_secret_name(name)


@pytest.mark.parametrize("name", ["tokens_used_by", "cardinal", "order", "authority", 42])
def test_a_name_that_only_begins_alike_is_not_secret(name: object) -> None:
    assert not mask.is_secret_name(name)


@given(st.text(max_size=300))
def test_masking_never_raises_and_masking_twice_shows_no_more(text: str) -> None:
    once = mask.text(text)
    assert len(mask.text(once)) <= len(once) + len(MASK) * (text.count("=") + text.count(":") + 1)


def test_a_long_text_is_masked_in_time() -> None:
    """A traceback of a large payload: no pattern may take quadratic time."""
    for piece in ("1 ", "a.", "eyJ", "token=", "- ", "key_", "'", "9" * 50 + " ", "a@"):
        mask.text(piece * (100_000 // len(piece)))
