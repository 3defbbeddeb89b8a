"""A policy overrides only what it names, and a backoff never comes back too early."""

from __future__ import annotations

import random
from dataclasses import FrozenInstanceError, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celeriac import Backoff, Policy
from celeriac.policy import DEFAULT


class Highest(random.Random):
    """Draws the upper bound of every jitter."""

    def uniform(self, a: float, b: float) -> float:
        return b


class Lowest(random.Random):
    """Draws no jitter at all."""

    def uniform(self, a: float, b: float) -> float:
        return a


def test_the_default_backoff_is_a_minute_doubling_up_to_an_hour() -> None:
    waits = [Backoff().delay(n, Lowest()) for n in range(8)]
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600]


def test_jitter_only_adds() -> None:
    assert Backoff(initial=60, jitter=30).delay(0, Highest()) == 90
    assert Backoff(initial=60, jitter=30).delay(0, Lowest()) == 60


def test_jitter_is_added_after_the_cap_so_that_capped_retries_spread_too() -> None:
    assert Backoff(initial=60, cap=100, jitter=30).delay(9, Highest()) == 130


@given(
    st.builds(
        Backoff,
        initial=st.floats(0, 1e6),
        factor=st.floats(1, 100),
        cap=st.floats(0, 1e6),
        jitter=st.floats(0, 1e6),
    ),
    st.integers(0, 10_000),
    st.integers(),
)
def test_a_delay_lies_between_nominal_and_nominal_plus_jitter_whatever_the_retry(
    backoff: Backoff, retry: int, seed: int
) -> None:
    delay = backoff.delay(retry, random.Random(seed))
    assert 0 <= delay <= backoff.cap + backoff.jitter
    assert delay >= min(backoff.cap, backoff.initial)


def test_what_failed_together_does_not_come_back_together() -> None:
    rng = random.Random(1)
    waits = sorted(Backoff().delay(0, rng) for _ in range(1000))
    assert waits[0] >= 60
    assert waits[-1] <= 90
    assert waits[900] - waits[100] > 20
    assert len({round(wait, 2) for wait in waits}) > 500


def test_an_initial_delay_of_zero_stays_zero() -> None:
    assert Backoff(initial=0, jitter=0).delay(5000, Highest()) == 0


@pytest.mark.parametrize("wrong", [{"initial": -1}, {"jitter": -0.1}, {"cap": -1}, {"factor": 0.5}])
def test_a_backoff_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="Backoff"):
        Backoff(**wrong)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"max_retries": -1}, "max_retries"),
        ({"timeout": 0}, "timeout"),
        ({"soft_timeout": -1}, "soft_timeout"),
        ({"timeout": 10, "soft_timeout": 10}, "soft_timeout"),
        ({"on_exhausted": "explode"}, "on_exhausted"),
        ({"on_lost": "maybe"}, "on_lost"),
        ({"on_stuck": "wait"}, "on_stuck"),
        ({"on_dead_letter": "drop"}, "on_dead_letter"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_the_name_of_its_field(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=f"Policy: {named}"):
        Policy(**wrong)  # type: ignore[arg-type]


def test_a_policy_names_nothing_by_itself() -> None:
    assert all(getattr(Policy(), field.name) is None for field in fields(Policy))


def test_what_a_policy_names_wins_and_the_rest_comes_from_below() -> None:
    mine = Policy(max_retries=0, on_lost="review")

    full = mine.over(DEFAULT)

    assert (full.max_retries, full.on_lost) == (0, "review")
    assert (full.backoff, full.on_exhausted, full.on_stuck) == (Backoff(), "dead_letter", "review")


def test_the_default_has_five_retries_and_ends_with_a_person() -> None:
    assert (DEFAULT.max_retries, DEFAULT.on_exhausted, DEFAULT.on_lost) == (5, "dead_letter", "again")
    assert (DEFAULT.timeout, DEFAULT.soft_timeout) == (None, None)


def test_a_policy_shared_by_tasks_cannot_be_changed_by_one_of_them() -> None:
    with pytest.raises(FrozenInstanceError):
        Policy().max_retries = 3  # type: ignore[misc]
