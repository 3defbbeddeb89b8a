"""A third party of the demo behaves as it was told."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.demo.behaviour import BadBehaviour, Behaviour, Mode
from tasks.demo.callbook import CallBook


def test_a_limit_serves_its_rate_and_refuses_the_rest_until_time_has_passed() -> None:
    limited = Behaviour(Mode.LIMIT, rate=2)

    assert [limited.next(now) for now in (0.0, 0.1, 0.2)] == [Mode.OK, Mode.OK, Mode.LIMIT]
    assert [limited.next(now) for now in (1.0, 1.1, 1.2)] == [Mode.OK, Mode.OK, Mode.LIMIT]
    assert limited.retry_after == 0.5


def test_a_rate_below_one_a_second_still_serves_its_share() -> None:
    limited = Behaviour(Mode.LIMIT, rate=0.5)

    assert [limited.next(now) for now in (0.0, 1.0, 2.0)] == [Mode.OK, Mode.LIMIT, Mode.OK]


def test_a_probability_hits_its_share_of_calls_and_the_same_seed_hits_the_same_calls() -> None:
    first, second = (Behaviour(Mode.FAIL, probability=0.25, seed=4) for _ in range(2))

    draws = [first.next(0.0) for _ in range(400)]

    assert draws == [second.next(0.0) for _ in range(400)]
    assert 60 < draws.count(Mode.FAIL) < 140


@pytest.mark.parametrize(
    ("request_body", "says"),
    [
        ({"mode": "sleepy"}, "sleepy"),
        ({"mode": "slow", "speed": 3}, "speed"),
        ({"mode": "slow", "delay": -1}, "delay"),
        ({"mode": "limit", "rate": 0}, "rate"),
        ({"mode": "fail", "probability": 1.5}, "probability"),
        ({"mode": "slow", "delay": "soon"}, "soon"),
        ({"mode": "slow", "delay": "nan"}, "delay"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_with_the_reason(request_body: dict[str, Any], says: str) -> None:
    with pytest.raises(BadBehaviour, match=says):
        Behaviour.parse(request_body)


def test_a_repeated_key_gets_the_first_answer_and_nothing_is_done_again() -> None:
    book = CallBook()
    answers = []
    for number in range(3):
        book.note("job-1")
        answers.append(book.act("job-1", "job-1", lambda number=number: {"number": number}))

    assert [(answer["number"], answer["repeated"]) for answer in answers] == [
        (0, False),
        (0, True),
        (0, True),
    ]
    assert book.report() == {"calls": 3, "acted": 1, "requests": {"job-1": {"calls": 3, "acted": 1}}}


def test_without_a_key_every_call_acts_and_the_book_shows_it() -> None:
    book = CallBook()
    for _ in range(2):
        book.note("job-2")
        book.act("job-2", None, dict)

    assert book.report()["requests"]["job-2"] == {"calls": 2, "acted": 2}
