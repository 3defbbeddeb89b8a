"""A rate is the fleet's: tokens grow with the clock, up to a quarter of a second's worth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from celeriac import conf
from celeriac.guard.limits import BURST, Buckets, Limits, read


def test_a_slow_rate_lets_one_start_and_the_next_when_its_time_has_come() -> None:
    buckets = Buckets()
    assert buckets.room({"sms": 2.0}, 100.0) == {"sms": 1}
    buckets.spend(["sms"])
    assert buckets.room({"sms": 2.0}, 100.4) == {"sms": 0}
    assert buckets.room({"sms": 2.0}, 100.5) == {"sms": 1}


def test_what_was_not_used_is_not_saved_up() -> None:
    buckets = Buckets()
    buckets.room({"sms": 100.0}, 0.0)
    assert buckets.room({"sms": 100.0}, 1000.0) == {"sms": 100 * BURST}


def test_types_without_a_rate_cost_nothing() -> None:
    buckets = Buckets()
    buckets.spend(["email"])
    assert buckets.room({}, 0.0) == {}


@given(st.floats(0.1, 500), st.lists(st.floats(0.001, 0.5), min_size=1, max_size=60))
def test_over_any_time_no_more_start_than_the_rate_allows_and_one_burst(rate: float, pauses: list[float]) -> None:
    buckets, now, started = Buckets(), 0.0, 0
    for pause in pauses:
        room = buckets.room({"sms": rate}, now)["sms"]
        buckets.spend(["sms"] * room)
        started += room
        now += pause
    assert started <= rate * now + max(1.0, rate * BURST) + 1e-6


def test_limits_of_the_settings_are_read(settings: Settings) -> None:
    settings.CELERIAC = {"QUEUES": {"sms": {"concurrency": 8}, "email": {}}, "TYPES": {"shop.sms": {"concurrency": 2}}}
    assert read({"shop.pay": 1.0}) == Limits({"sms": 8}, {"shop.sms": 2}, {"shop.pay": 1.0})
    settings.CELERIAC = {}
    assert not read({})


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"sms": 8}, "each with its limits"),
        ({"sms": {"concurency": 8}}, "no limit 'concurency'"),
        ({"sms": {"concurrency": 0}}, "at least 1"),
        ({"sms": {"concurrency": True}}, "at least 1"),
        ([], "must be a dict"),
    ],
)
def test_a_limit_that_makes_no_sense_is_named(value: object, says: str, settings: Settings) -> None:
    settings.CELERIAC = {"QUEUES": value}
    (problem,) = conf.problems()
    assert problem[0] == "celeriac.E003"
    assert says in problem[1]
