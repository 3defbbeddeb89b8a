"""What happened is told once, to everybody who listens, and listening can't break a job."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest

from celeriac import events
from celeriac.events import Event

PACKAGE = events.__file__.rsplit("/", 1)[0]


@pytest.fixture
def heard() -> Iterator[list[Event]]:
    told: list[Event] = []
    end = events.subscribe(told.append)
    yield told
    end()


def test_a_subscriber_gets_the_name_and_the_fields_that_are_known(heard: list[Event]) -> None:
    events.emit("job.claimed", job_id="1", queue="sms", worker=None)
    assert heard == [Event("job.claimed", {"job_id": "1", "queue": "sms"})]


def test_a_subscriber_that_raises_is_logged_and_the_next_one_still_hears(
    heard: list[Event], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(event: Event) -> None:
        raise RuntimeError("observer")

    end = events.subscribe(broken)
    late: list[Event] = []
    end_late = events.subscribe(late.append)
    try:
        events.emit("job.succeeded", job_id="1")
    finally:
        end()
        end_late()
    assert len(heard) == len(late) == 1
    assert "A subscriber of job.succeeded raised" in caplog.text


def test_an_ended_subscription_hears_nothing_more() -> None:
    told: list[Event] = []
    events.subscribe(told.append)()
    events.emit("job.succeeded", job_id="1")
    assert told == []


def test_an_event_is_logged_at_its_level_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="celeriac"):
        events.emit("job.lost", job_id="1")
        events.emit("job.accepted", job_id="2")

    assert [(r.levelno, r.getMessage(), r.celeriac) for r in caplog.records] == [  # type: ignore[attr-defined]
        (logging.ERROR, "job.lost", {"job_id": "1"}),
        (logging.DEBUG, "job.accepted", {"job_id": "2"}),
    ]


def test_an_event_outside_the_published_table_is_an_error_of_ours() -> None:
    with pytest.raises(KeyError):
        events.emit("job.vanished")


def test_every_published_event_is_a_noun_and_a_past_with_a_sentence_to_it() -> None:
    for name, (level, meaning) in events.EVENTS.items():
        assert re.fullmatch(r"(job|message|worker|fleet|scheduler|switch)\.[a-z_]+", name)
        assert level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
        assert meaning.endswith(".")


def test_events_cannot_be_changed_by_who_hears_them() -> None:
    with pytest.raises(AttributeError):
        Event("job.lost").name = "job.found"  # type: ignore[misc]
