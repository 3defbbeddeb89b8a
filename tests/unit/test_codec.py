"""Arguments and results are kept as JSON that any column holds; what can't be kept is refused by name, before anything is written."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from celeriac.bridge import codec
from celeriac.errors import (
    PayloadNotSerialisable,
    PayloadTooLarge,
    PayloadUnreadable,
    ResultNotSerialisable,
    ResultTooLarge,
)


def encode(*args: Any, **kwargs: Any) -> str:
    return codec.encode_payload(args, kwargs, {}, {})


def there_and_back(value: Any) -> Any:
    return codec.decode_payload(encode(value))["args"][0]


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 3, 4, 5, 6, 7, 891011, tzinfo=UTC),
        datetime(2026, 3, 4, 5, 6, 7),
        date(2026, 3, 4),
        time(5, 6, 7),
        timedelta(days=-1, seconds=5, microseconds=7),
        Decimal("19.90"),
        uuid.UUID("0191b5a4-7c9e-7abc-8def-0123456789ab"),
        b"\x00\xff raw",
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_lacks_arrives_as_what_it_was(value: Any) -> None:
    back = there_and_back({"deep": [value]})["deep"][0]
    assert back == value
    assert type(back) is type(value)


def test_what_json_changes_is_changed_as_the_differences_table_says() -> None:
    assert there_and_back((1, 2)) == [1, 2]
    assert there_and_back({1: "a", None: "b", 2.5: "c"}) == {"1": "a", "null": "b", "2.5": "c"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@given(json_values)
def test_plain_data_survives_in_ascii_without_nul(value: Any) -> None:
    try:
        encoded = encode(value)
    except PayloadNotSerialisable:
        assert "__type__" in repr(value)
        return
    assert encoded.isascii()
    assert "\x00" not in encoded
    assert codec.decode_payload(encoded)["args"] == [value]


@pytest.mark.parametrize("text", ["NUL \x00", "lone \ud800 surrogate", "漢😀"])
def test_text_that_a_column_refuses_survives(text: str) -> None:
    assert there_and_back(text) == text


@pytest.mark.parametrize(
    ("args", "kwargs", "path", "kind"),
    [
        ((object(),), {}, "args[0]", "builtins.object"),
        ((1, {"when": [1, 2, {3}]}), {}, "args[1]['when'][2]", "builtins.set"),
        ((), {"order": {"lines": (1, 2j)}}, "kwargs['order']['lines'][1]", "builtins.complex"),
        (({("a", 1): 2},), {}, "args[0] key ('a', 1)", "builtins.tuple"),
    ],
)
def test_what_cannot_be_kept_is_named_by_its_path(args: Any, kwargs: Any, path: str, kind: str) -> None:
    with pytest.raises(PayloadNotSerialisable) as refused:
        codec.encode_payload(args, kwargs, {}, {})
    assert refused.value.path == path
    assert kind in str(refused.value)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    with pytest.raises(PayloadNotSerialisable) as refused:
        encode(loop)
    assert refused.value.path.startswith("args[0]")


def test_a_value_nested_beyond_reason_is_refused() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(PayloadNotSerialisable):
        encode(deep)


def test_a_dict_that_would_come_back_as_another_type_is_refused() -> None:
    with pytest.raises(PayloadNotSerialisable) as refused:
        encode({"safe": {"__type__": "uuid", "__value__": "x"}})
    assert refused.value.path == "args[0]['safe']"


def test_a_text_that_only_looks_like_a_kept_type_is_just_text() -> None:
    assert there_and_back('{"__type__": "uuid"}') == '{"__type__": "uuid"}'


def test_what_is_absent_takes_no_byte() -> None:
    assert codec.encode_payload((), {}, {"callbacks": None, "chord": None}, {}) == "{}"
    assert codec.decode_payload("{}") == {"args": [], "kwargs": {}, "headers": {}}


def test_links_chain_and_chord_are_kept_beside_the_arguments() -> None:
    embed = {"callbacks": [{"task": "x"}], "errbacks": None, "chain": [], "chord": {"task": "y"}}
    body = codec.decode_payload(codec.encode_payload((1,), {}, embed, {"shadow": "z"}))
    assert body["callbacks"] == [{"task": "x"}]
    assert body["chord"] == {"task": "y"}
    assert body["headers"] == {"shadow": "z"}
    assert not {"errbacks", "chain"} & set(body)


def test_a_payload_over_the_limit_is_refused_with_its_largest_part(settings: Settings) -> None:
    settings.CELERIAC = {"MAX_PAYLOAD_BYTES": 2048}
    encode("x" * 1500)
    with pytest.raises(PayloadTooLarge) as refused:
        encode("x" * 100, body="y" * 3000)
    assert refused.value.limit == 2048
    assert refused.value.size > 3000
    assert "kwargs['body']" in str(refused.value)


@pytest.mark.parametrize(
    "stored",
    ["", "not json", "[1]", '"text"', '{"args": 5}', '{"kwargs": []}', '{"args": [{"__type__": "?", "__value__": 1}]}'],
)
def test_a_row_that_somebody_broke_by_hand_is_said_to_be_unreadable(stored: str) -> None:
    with pytest.raises(PayloadUnreadable):
        codec.decode_payload(stored)


@pytest.mark.parametrize("value", [None, 0, "", [], {"order": 42}, "NUL \x00", Decimal("1.5"), timedelta(seconds=3)])
def test_a_result_comes_back_as_it_was_returned(value: Any) -> None:
    back = codec.decode_result(codec.encode_result(value))
    assert back == value
    assert type(back) is type(value)


def test_no_result_takes_no_byte() -> None:
    assert codec.encode_result(None) is None


def test_a_result_that_cannot_be_kept_is_named_and_has_a_code() -> None:
    with pytest.raises(ResultNotSerialisable) as refused:
        codec.encode_result({"order": [object()]})
    assert "result['order'][0] is a builtins.object" in str(refused.value)
    assert refused.value.code == "CELERIAC_RESULT_UNSERIALISABLE_500"


def test_a_result_over_the_limit_is_refused_with_both_sizes(settings: Settings) -> None:
    settings.CELERIAC = {"MAX_RESULT_BYTES": 1024}
    with pytest.raises(ResultTooLarge, match=r"5,002 bytes, more than the 1,024"):
        codec.encode_result("x" * 5000)


def test_nan_is_never_written_into_a_payload_that_others_read() -> None:
    """Python writes NaN where JSON has none; it comes back here, and the column is text, so nothing breaks."""
    assert json.loads(encode(float("nan")))["args"][0] != 0
