"""A project moves in while it works, and out again: nothing is lost, whoever is killed on the way."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import celery
import pytest
from django.db import connection

from celeriac.models import Job, Live
from tests.support import effects, moving, watch
from tests.support.fleet import QUICKLY, Fleet
from tests.support.processes import Member
from tests.support.product import Product
from tests.support.waiting import wait_until

#: Seconds of the side-by-side run, and jobs a second: `MOVING_SECONDS=60` is what the promise is given for.
SECONDS = float(os.environ.get("MOVING_SECONDS", "12"))
RATE = 50
LONGEST_WAIT = 1.0  # at the 99th percentile

OLD = {"MOVING_CELERY": "celery"}


@pytest.fixture(scope="module")
def app_name() -> str:
    """The project that moves."""
    return "tests.support.moving"


@pytest.fixture(scope="module")
def overrides(product: Product) -> dict[str, str]:
    """Senders that use plain Celery look into Redis; what a dead worker had is redelivered soon."""
    return {"MOVING_RESULTS": product.services.redis_url, "MOVING_VISIBILITY": "3"}


@pytest.fixture(scope="module", autouse=True)
def scheduler(fleet: Fleet) -> Member:
    """A leader; workers come with the tests."""
    return fleet.scheduler()


@pytest.fixture(scope="module")
def old(product: Product) -> Iterator[Any]:
    """The code that enqueues, before the switch."""
    url = product.services.redis_url
    with celery.Celery("old", broker=url, backend=url, set_as_current=False) as app:
        yield app


@pytest.fixture
def word() -> str:
    return uuid.uuid4().hex


def _old_worker(fleet: Fleet, queue: str) -> Member:
    """A worker as it was before the switch."""
    member = fleet.worker(queue, 2, extra=QUICKLY, env=OLD, wait=False)
    wait_until(lambda: " ready." in member.text(), what="the old worker consumes", dump=member.tail)
    return member


def _executions(word: str) -> list[str]:
    """Words that begin with *word*, once for each execution."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT word FROM probe_effect WHERE starts_with(word, %s)", [f"{word} "])
        return [found for (found,) in cursor.fetchall()]


def test_old_and_new_workers_and_callers_share_a_queue_and_nothing_is_lost_or_waits_long(
    fleet: Fleet, old: Any, word: str
) -> None:
    workers = [_old_worker(fleet, "sms"), fleet.worker("sms", 2)]
    sent: dict[str, Any] = {}
    begun = time.monotonic()
    for number in range(int(SECONDS * RATE)):
        name = f"{word} {number}"
        pause = begun + number / RATE - time.monotonic()
        time.sleep(max(0.0, pause))  # the rate is what is asked
        sent[name] = effects.now()
        if number % 2:
            old.send_task("moving.sms", (name,), queue="sms")
        else:
            moving.sms.apply_async((name,), queue="sms")

    wait_until(lambda: len(_executions(word)) >= len(sent), what="all have run", dump=fleet.logs)
    watch.none_unfinished()
    assert sorted(_executions(word)) == sorted(sent)
    waits = sorted((at - sent[name]).total_seconds() for name, at in _moments(word))
    p50, p99 = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
    print(f"{len(sent)} jobs in {SECONDS:g} s, wait p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms")
    assert p99 <= LONGEST_WAIT
    assert [worker.stop() for worker in workers] == [0, 0]


def _moments(word: str) -> list[tuple[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT word, at FROM probe_effect WHERE starts_with(word, %s)", [f"{word} "])
        return [(name, at) for name, at in cursor.fetchall()]


def test_a_worker_that_is_killed_before_an_adopted_row_is_committed_loses_no_message(
    fleet: Fleet, old: Any, product: Product, word: str
) -> None:
    first = fleet.worker("before", 2)
    product.services.postgres.pause()
    try:
        sent = [old.send_task("moving.sms", (f"{word} {n}",), queue="before") for n in range(5)]
        wait_until(lambda: product.redis().hlen("unacked") > 0, what="one was taken", dump=first.tail)
        first.kill_tree()
    finally:
        product.services.postgres.resume()

    second = fleet.worker("before", 2)
    assert [result.get(timeout=90) for result in sent] == [f"{word} {n}" for n in range(5)]
    assert len(_executions(word)) == 5
    assert second.stop() == 0


def test_a_worker_that_is_killed_between_the_commit_and_the_acknowledgement_makes_no_second_job(
    fleet: Fleet, old: Any, product: Product, word: str
) -> None:
    first = fleet.worker("between", 2)
    product.services.postgres.pause()
    try:
        sent = old.send_task("moving.sms", (f"{word} once",), queue="between")
        wait_until(lambda: product.redis().hlen("unacked") > 0, what="it was taken", dump=first.tail)
        product.services.redis.pause()  # nothing is acknowledged from here on
    finally:
        product.services.postgres.resume()
    try:
        wait_until(lambda: Job.objects.known_as(sent.id).exists(), what="its row is committed", dump=first.tail)
        first.kill_tree()
    finally:
        product.services.redis.resume()

    second = fleet.worker("between", 2)
    assert sent.get(timeout=90) == f"{word} once"
    wait_until(lambda: product.redis().hlen("unacked") == 0, what="it came again and was acknowledged", timeout=90)
    assert Job.objects.known_as(sent.id).count() == 1
    assert len(_executions(word)) == 1
    assert second.stop() == 0


def test_back_at_plain_celery_the_old_workers_run_what_is_sent_from_then_on(
    fleet: Fleet, old: Any, word: str, gate: str, open_gate: Callable[[str], None]
) -> None:
    """As the guide has it: callers first, then the workers finish, then the import is changed back."""
    new = fleet.worker("back", 2)
    held = moving.hold.apply_async((f"{word} held", gate), queue="back")
    waiting = [moving.sms.apply_async((f"{word} {n}",), queue="back") for n in range(10)]
    wait_until(lambda: len(_executions(word)) == 11, what="all have begun")
    assert Live.objects.count() == 1  # what `manage.py celeriac status` shows: not yet
    open_gate(gate)
    assert watch.all_ended([held, *waiting]) == {"SUCCEEDED": 11}
    assert new.stop() == 0

    before = _old_worker(fleet, "back")
    sent = [old.send_task("moving.sms", (f"{word} back {n}",), queue="back") for n in range(10)]
    assert [result.get(timeout=60) for result in sent] == [f"{word} back {n}" for n in range(10)]
    assert not Job.objects.filter(payload__contains=f"{word} back").exists()
    assert before.stop() == 0
