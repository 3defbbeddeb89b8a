"""celeriac.testing: what a project's own tests are written with."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from celery import chain, chord
from django.db import connection, transaction

from celeriac import testing
from celeriac.models import DeadLetter, Job
from celeriac.triage import letters as triage
from celeriac.triage.letters import Decider
from tests.support import effects, probe

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def table() -> None:
    """Where the probe's jobs leave their effects; it goes with the test's transaction."""
    effects.create()


def drain(**options: Any) -> dict[str, int]:
    return testing.drain(app=probe.app, **options)


def test_what_was_enqueued_is_found_by_task_arguments_and_fields() -> None:
    probe.note.apply_async(("first",), biz_id="order-1")
    probe.note.apply_async(("second",), queue="sms")

    assert testing.assert_enqueued(probe.note, args=["first"]).biz_id == "order-1"
    assert len(testing.enqueued(probe.note)) == 2
    testing.assert_enqueued("tests.support.probe.note", queue="sms", count=1)
    testing.assert_not_enqueued(probe.add)


def test_what_is_missing_is_told_with_what_is_there() -> None:
    probe.note.delay("there")
    with pytest.raises(AssertionError, match=r"(?s)no job of tests.support.probe.add .* args=\['there'\]"):
        testing.assert_enqueued(probe.add, args=[1, 2])
    with pytest.raises(AssertionError, match="1 job"):
        testing.assert_not_enqueued(probe.note)


def test_due_jobs_and_what_they_enqueue_run_in_the_tests_own_transaction() -> None:
    result = probe.send_another.delay("enqueued by a job")

    assert drain() == {"SUCCEEDED": 2}
    assert effects.count("enqueued by a job") == 1
    assert probe.app.AsyncResult(result.id).state == "SUCCESS"
    assert connection.in_atomic_block, "the test's transaction is untouched"


def test_chains_and_chords_go_their_way() -> None:
    last = chain(probe.add.s(1, 2), probe.add.s(10))()
    body = chord([probe.add.s(1, 1), probe.add.s(2, 2)])(probe.total.s())

    assert drain() == {"SUCCEEDED": 5}
    assert (probe.app.AsyncResult(last.id).result, probe.app.AsyncResult(body.id).result) == (13, 6)


def test_a_retry_waits_until_the_clock_has_moved() -> None:
    job = probe.retry_later.delay("later")

    assert drain() == {}
    assert probe.app.AsyncResult(job.id).state == "RETRY"
    with testing.travel(120):
        assert drain() == {"SUCCEEDED": 1}
    assert effects.count("later") == 2


def test_what_is_scheduled_or_expires_follows_the_clock_too() -> None:
    probe.note.apply_async(("tomorrow",), countdown=86_400)
    expiring = probe.note.apply_async(("never",), countdown=100, expires=60)
    with testing.travel(86_401):
        assert drain() == {"SUCCEEDED": 1}
    assert effects.words() == ["tomorrow"]
    assert probe.app.AsyncResult(expiring.id).state == "REVOKED"


def test_a_failure_is_a_dead_letter_that_can_be_sent_back() -> None:
    probe.fail_by_letters.delay("to the letters")
    assert drain() == {"DEAD_LETTER": 1}

    triage.run_again(DeadLetter.objects.get(), Decider("amy"), "once more")
    assert drain() == {"DEAD_LETTER": 1}


def test_one_job_is_performed_before_it_is_due() -> None:
    result = probe.add.apply_async((1, 2), countdown=3600)
    assert testing.perform(result, app=probe.app).outcome == "SUCCEEDED"
    with pytest.raises(AssertionError, match="doesn't wait to be run: it is SUCCEEDED"):
        testing.perform(result, app=probe.app)


def test_jobs_that_enqueue_themselves_for_ever_are_stopped() -> None:
    probe.echo_for_ever.delay()
    with pytest.raises(AssertionError, match="more than 20 runs"):
        drain(limit=20)


def test_only_the_queues_asked_for_are_drained() -> None:
    probe.note.apply_async(("here",), queue="here")
    probe.note.apply_async(("there",), queue="there")
    assert drain(queues=["here"]) == {"SUCCEEDED": 1}
    assert [job.queue for job in testing.enqueued()] == ["there"]


def test_a_task_that_nobody_knows_is_named() -> None:
    probe.app.send_task("shop.forgotten")
    with pytest.raises(AssertionError, match=r"knows no task 'shop\.forgotten'"):
        drain()


def test_the_plugins_fixture_is_the_module_with_a_database(jobs: ModuleType) -> None:
    probe.note.delay("by fixture")
    jobs.assert_enqueued(probe.note)


def test_a_savepoint_that_is_rolled_back_takes_its_jobs_along() -> None:
    class Undone(Exception):
        pass

    def undone() -> None:
        with transaction.atomic():
            probe.note.delay("undone")
            raise Undone

    with pytest.raises(Undone):
        undone()
    assert Job.objects.count() == 0
    assert drain() == {}


@pytest.mark.django_db(transaction=True)
def test_outside_of_a_test_transaction_it_is_the_same() -> None:
    probe.note.delay("committed")
    assert drain() == {"SUCCEEDED": 1}
    assert not connection.in_atomic_block
