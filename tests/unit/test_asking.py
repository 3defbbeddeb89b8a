"""What can't be kept is refused where it is asked for, by name and with the remedy."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest
from django.utils import timezone
from kombu import Exchange, Queue, binding

from celeriac.bridge.asking import job_of, queue_name
from celeriac.bridge.door import Door
from celeriac.errors import EnqueueError
from tasks import app

ID = "01a22f3b-29c0-752d-97e2-b70489b2f834"


def asked(priority: Any = None, queue: str = "sms", task_id: Any = ID, **options: Any) -> Any:
    known = {"countdown", "eta", "expires", "time_limit", "soft_time_limit", "retries"}
    given = {name: options.pop(name) for name in list(options) if name in known}
    door: Door = app.amqp
    message = door.as_task_v2(task_id, "shop.sms", args=(1,), **given)
    return job_of("shop.sms", message, queue, priority, options)


@pytest.mark.parametrize(
    ("named", "value"),
    [
        ("time_limit", math.nan), ("time_limit", math.inf), ("time_limit", 1e30), ("time_limit", -1), ("time_limit", "5"),
        ("soft_time_limit", math.nan), ("soft_time_limit", "5"),
        ("countdown", math.nan), ("countdown", 1e30), ("countdown", "5"),
        ("eta", "tomorrow"), ("eta", datetime(9999, 12, 31, 23, 59, tzinfo=UTC)),
        ("retries", 10**9), ("retries", "x"),
        ("priority", "high"), ("priority", math.nan),
        ("queue", "a\x00b"), ("queue", "q" * 129),
        ("biz_id", "b" * 256), ("biz_id", "\ud800"),
        ("task_id", "a\x00b"), ("task_id", 7),
    ],
)  # fmt: skip
def test_what_no_column_holds_is_refused_by_name(named: str, value: Any) -> None:
    with pytest.raises(EnqueueError, match=named):
        asked(**{named: value})


@pytest.mark.parametrize(("value", "kept"), [(None, 0), (99, 9), (-5, 0), (5.9, 5), (math.inf, 9), (True, 1)])
def test_a_priority_is_cut_to_what_there_is(value: Any, kept: int) -> None:
    assert asked(priority=value).priority == kept


def test_a_countdown_below_zero_is_due_now() -> None:
    assert asked(countdown=-5).delay == 0.0


def test_an_exchange_and_a_key_are_the_queue_that_is_bound_to_them() -> None:
    queues = [
        Queue("videos", Exchange("media"), routing_key="media.video"),
        Queue("all", Exchange("news", type="fanout")),
        Queue("feeds", Exchange("topics", type="topic"), routing_key="feed.#"),
        Queue("stars", Exchange("topics", type="topic"), routing_key="*.star"),
        Queue("both", bindings=[binding(Exchange("media"), "media.image"), binding(Exchange("media"), "media.sound")]),
    ]

    class Declared:
        app = app
        queues: ClassVar = {}

    Declared.queues = {queue.name: queue for queue in queues}
    led = {
        ("media", "media.video"): "videos",
        ("news", "whatever"): "all",
        ("topics", "feed"): "feeds",
        ("topics", "feed.a.b"): "feeds",
        ("topics", "feedback"): "feedback",  # nobody is bound to it: the key names the queue
        ("topics", "pop.star"): "stars",
        ("topics", "pop.rock.star"): "pop.rock.star",
        ("media", "media.sound"): "both",
        ("others", "sms"): "sms",
    }
    assert {where: queue_name(Declared, "default", *where) for where in led} == led


@pytest.mark.parametrize(
    ("local", "moment"),
    [
        (datetime(2026, 3, 29, 1, 59, 59), datetime(2026, 3, 29, 0, 59, 59, tzinfo=UTC)),
        # The hour that is left out in spring: as if the clock had not been moved yet, half an hour after the move.
        (datetime(2026, 3, 29, 2, 30), datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
        (datetime(2026, 3, 29, 3, 30), datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
        # The hour that comes twice in autumn: the first, unless the caller says the second.
        (datetime(2026, 10, 25, 2, 30), datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
        (datetime(2026, 10, 25, 2, 30, fold=1), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),
    ],
    ids=["before", "left out", "after", "twice", "twice, the second"],
)
@pytest.mark.parametrize("option", ["eta", "expires"])
def test_a_naive_moment_near_a_change_of_the_clock_is_the_moment_that_it_names(
    option: str, local: datetime, moment: datetime
) -> None:
    with timezone.override("Europe/Berlin"):
        job = asked(**{option: local})
        text = asked(**{option: local.isoformat()}) if not local.fold else job

    found = [each.run_at if option == "eta" else each.expires_at for each in (job, text)]
    # As seconds: two zones' moments near a change are never equal in Python, whatever they are.
    assert [each.timestamp() for each in found] == [moment.timestamp()] * 2
