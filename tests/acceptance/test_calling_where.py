"""Which queue a call goes to, what it may say beside, and who may call."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest
from celery import Celery as PlainCelery
from kombu import Exchange

from celeriac.errors import EnqueueError, JobExists
from celeriac.models import Job
from tests.support import callee, effects, watch
from tests.support.fleet import Fleet
from tests.support.waiting import wait_until

QUEUES = "default,side,videos,feeds"


@pytest.fixture(scope="module")
def app_name() -> str:
    """The app that has routes."""
    return "tests.support.callee"


@pytest.fixture(scope="module", autouse=True)
def members(fleet: Fleet) -> None:
    """A leader, and a worker for all the queues."""
    fleet.scheduler(wait=False)
    fleet.worker(QUEUES, 2)


# ---- routes ----------------------------------------------------------------------------------------------------------------


def test_a_route_of_the_settings_names_the_queue() -> None:
    assert callee.routed.delay().get(timeout=60) == "side"


def test_the_queue_of_the_call_goes_before_the_route() -> None:
    assert callee.routed.apply_async(queue="videos").get(timeout=60) == "videos"


def test_a_queue_that_nobody_has_declared_is_a_queue() -> None:
    result = callee.routed.apply_async(queue="nobody-has-declared")

    assert watch.job(result).queue == "nobody-has-declared"
    result.revoke()
    assert watch.ended(result).outcome == "CANCELLED"


def test_an_exchange_and_a_key_lead_to_the_queue_that_is_bound_to_them() -> None:
    results = [
        callee.filmed.delay(),  # by the settings' route
        callee.note.apply_async(("filmed",), exchange="media", routing_key="media.video"),
        callee.note.apply_async(("filmed",), exchange=Exchange("media"), routing_key="media.video"),
        callee.note.apply_async(("feed",), exchange="news", routing_key="feed.sport.football"),
    ]
    assert [watch.job(result).queue for result in results] == ["videos", "videos", "videos", "feeds"]
    assert watch.all_ended(results) == {"SUCCEEDED": 4}


def test_an_exchange_that_no_queue_is_bound_to_has_the_key_for_the_queues_name() -> None:
    assert callee.routed.apply_async(exchange="of others", routing_key="side").get(timeout=60) == "side"


def test_a_link_and_a_chain_follow_the_routes_too() -> None:
    result = (callee.note.s("first") | callee.routed.si()).delay()

    assert result.get(timeout=60) == "side"


# ---- options that a message would have ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "gzip"},
        {"compression": "bzip2", "serializer": "json"},
        {"serializer": "yaml"},
        {"delivery_mode": 1},
        {"retry": False, "retry_policy": {"max_retries": 0}},
        {"ignore_result": False},
        {"argsrepr": "(shown)", "kwargsrepr": "{}"},
        {"reply_to": "somebody"},
        {"shadow": "another name"},
        {"add_to_parent": False},
    ],
    ids=str,
)
def test_options_of_a_message_change_nothing_about_the_job(options: dict[str, Any]) -> None:
    result = callee.note.apply_async(("with options",), **options)

    assert result.get(timeout=60) == "with options"


def test_a_result_that_is_ignored_is_not_kept_and_its_end_is() -> None:
    result = callee.note.apply_async(("ignored",), ignore_result=True)

    job = watch.ended(result)

    assert (job.outcome, job.result) == ("SUCCEEDED", None)


def test_a_pickled_call_is_refused_and_nothing_is_written() -> None:
    before = Job.objects.count()

    with pytest.raises(EnqueueError, match="pickle"):
        callee.note.apply_async(("pickled",), serializer="pickle")

    assert Job.objects.count() == before


@pytest.mark.parametrize(("asked", "kept"), [(-3, 0), (0, 0), (5, 5), (9, 9), (255, 9), (None, 0)])
def test_a_priority_is_kept_between_0_and_9(asked: int | None, kept: int) -> None:
    result = callee.note.apply_async(("by priority",), priority=asked, countdown=600)

    assert watch.job(result).priority == kept
    result.revoke()


# ---- by name -----------------------------------------------------------------------------------------------------------------


STRANGER = """
import django; django.setup()
from datetime import UTC, datetime
from celeriac import Celery
app = Celery("elsewhere")
app.config_from_object("django.conf:settings", namespace="CELERY")
result = app.send_task("unknown.to.the.caller", (datetime(2026, 3, 1, 12, 30, tzinfo=UTC),), queue="side", priority=3)
assert "unknown.to.the.caller" not in app.tasks
print(result.get(timeout=60), result.id)
"""


def test_a_task_is_called_by_a_name_that_the_caller_does_not_know(fleet: Fleet) -> None:
    member = fleet.python("stranger", ["-c", STRANGER])

    assert member.wait(120) == 0, member.tail()
    assert "['datetime', '2026-03-01T12:30:00+00:00']" in member.text()
    job = watch.job(member.text().split()[-1])
    assert (job.queue, job.priority, job.outcome) == ("side", 3, "SUCCEEDED")


def test_a_route_holds_for_a_name_that_the_caller_does_not_know() -> None:
    result = callee.app.send_task("unknown.to.the.caller", (datetime(2026, 3, 1),))

    assert watch.job(result).queue == "side"
    assert result.get(timeout=60) == ["datetime", "2026-03-01T00:00:00"]


def test_a_signature_that_is_only_a_name_is_called_with_its_links() -> None:
    linked = callee.app.signature("tests.support.callee.note", ("linked by name",), immutable=True)
    result = callee.app.signature("tests.support.callee.note", ("by name",), link=linked).delay()

    assert result.get(timeout=60) == "by name"
    wait_until(lambda: effects.count("linked by name"), what="the link has run")


# ---- ids and threads -----------------------------------------------------------------------------------------------------------


def test_an_id_of_ones_own_that_waits_is_answered_with_the_first_job_and_its_arguments() -> None:
    first = callee.note.apply_async(("first asked",), task_id="asked-twice", countdown=600)
    second = callee.note.apply_async(("second asked",), task_id="asked-twice")

    assert first.id == second.id
    assert Job.objects.filter(alias="asked-twice").count() == 1
    first.revoke()
    with pytest.raises(JobExists):
        callee.note.apply_async(("third asked",), task_id="asked-twice")
    assert effects.count("second asked") + effects.count("third asked") == 0


def test_one_id_asked_for_by_many_threads_at_once_is_one_job() -> None:
    start = threading.Barrier(10)

    def ask(number: int) -> str:
        from django.db import connections

        try:
            start.wait(30)
            return str(callee.note.apply_async((f"raced {number}",), task_id="raced", countdown=1).id)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(10) as pool:
        assert set(pool.map(ask, range(10))) == {"raced"}
    assert watch.ended("raced").outcome == "SUCCEEDED"
    assert sum(effects.count(f"raced {number}") for number in range(10)) == 1


def test_fifty_threads_of_one_process_enqueue_without_waiting_for_each_other(fleet: Fleet) -> None:
    member = fleet.python("storm", ["-m", "tests.support.enqueuer", "storm", "--count", "500", "--threads", "50"])

    assert member.wait(120) == 0, member.tail()
    said = json.loads(member.text().splitlines()[-1])
    assert said["errors"] == []
    assert len(set(said["ids"])) == 500
    # None of them has spoken to the broker: that is the bell's, on a thread of its own.
    assert not [thread for thread in said["connects"] if thread.startswith("caller")]
    print(f"\n50 threads: {500 / said['seconds']:.0f} jobs/s, p99 {said['p99'] * 1000:.0f} ms")
    assert watch.all_ended(said["ids"]) == {"SUCCEEDED": 500}
    assert all(effects.count(f"storm {number}") == 1 for number in (0, 250, 499))


def test_a_plain_celery_app_of_the_same_project_can_ask_for_the_result() -> None:
    result = callee.note.delay("asked elsewhere")
    result.get(timeout=60)

    plain = PlainCelery("plain", set_as_current=False, backend="disabled://")
    assert plain.AsyncResult(result.id, backend=callee.app.backend).get(timeout=60) == "asked elsewhere"
