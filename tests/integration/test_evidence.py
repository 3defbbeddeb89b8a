"""What a leader sees of beats and leases when the database's clock is set, or somebody's transaction holds the rows."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone
from psycopg.errors import LockNotAvailable
from pytest_django import Settings

from celeriac import clock
from celeriac.fleet.heartbeat import Card, Heartbeat, Vitals
from celeriac.fleet.leadership import LOOK_EVERY, Leadership
from celeriac.fleet.rescue import Rescue
from celeriac.fleet.server_clock import ServerClock
from celeriac.ledger.session import do_not_wait, own_session
from celeriac.models import Lease, Worker
from celeriac.settle.decide import Decision
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

SETTLE_IN = 1.5
STALL_AFTER = 4.0


class Types:
    """Task types of a project without any."""

    def on_lost(self, task_type: str) -> str:
        return "again"

    def on_stuck(self, task_type: str) -> str:
        return "review"

    def on_failure(self, task_type: str, error: BaseException, retry_count: int) -> Decision:
        raise AssertionError("no job of these tests fails")

    def args_repr(self, payload: str) -> str:
        return ""


@pytest.fixture(autouse=True)
def limits(settings: Settings) -> None:
    settings.CELERIAC = {"SETTLE_IN": SETTLE_IN, "STALL_AFTER": STALL_AFTER}


@pytest.fixture
def session() -> Iterator[BaseDatabaseWrapper]:
    """The leader's."""
    made = own_session("default")
    do_not_wait(made)
    yield made
    made.close()


@pytest.fixture
def rescue(session: BaseDatabaseWrapper) -> Rescue:
    """The rescue of a leader in term 1, whose evidence is old enough."""
    Lease.objects.create(name="scheduler", term=1, holder="box1:1", renewed_at=timezone.now())
    made = Rescue(session, Types(), lambda worker: None, ServerClock())
    _look_for(made, SETTLE_IN + 0.5)
    return made


def _worker(silent: float = 0.0) -> Worker:
    at = timezone.now() - timedelta(seconds=silent)
    return Worker.objects.create(
        id=uuid.uuid4(), hostname="sms1@host", host="box1", pid=1, pool="prefork", queues=["sms"], tasks=[], slots=1,
        state="alive", versions={}, lock_key=1, witnessed=False, started_at=at, beat_at=at, verdict="",
    )  # fmt: skip


def _look_for(rescue: Rescue, seconds: float) -> None:
    """Look as often as a leader does; like its loop, go on when a look had to wait for a lock."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            rescue.look(1)
        except OperationalError as exc:
            if not isinstance(exc.__cause__, LockNotAvailable):
                raise
        time.sleep(0.05)


def _given_up(worker: Worker) -> bool:
    worker.refresh_from_db()
    return worker.ended_at is not None


@contextmanager
def _held(statement: str) -> Iterator[BaseDatabaseWrapper]:
    """Somebody's transaction that has executed *statement* and is open while the block lasts."""
    other = own_session("default")
    with other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(statement)
        try:
            yield other
        finally:
            cursor.execute("ROLLBACK")
            other.close()


# ---- verdicts --------------------------------------------------------------------------------------------------------


def test_a_worker_that_is_silent_is_given_up(rescue: Rescue) -> None:
    silent, beats = _worker(STALL_AFTER + 1), _worker()
    _look_for(rescue, 1.0)
    assert (_given_up(silent), _given_up(beats)) == (True, False)


def test_nobody_is_given_up_because_the_databases_clock_was_set_forward(rescue: Rescue) -> None:
    beats = _worker()
    _look_for(rescue, 0.7)
    with clock.shift(60.0):
        _look_for(rescue, SETTLE_IN - 0.5)
        assert not _given_up(beats)
        # It has not beaten since, by the new clock either: the evidence is old again, and it is silent in fact.
        _look_for(rescue, 1.5)
        assert _given_up(beats)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1 FROM celeriac_worker FOR UPDATE",
        "LOCK TABLE celeriac_worker",
        "LOCK TABLE celeriac_worker IN SHARE MODE",
    ],
)
def test_nobody_is_given_up_while_beats_cannot_be_written_and_a_while_after(rescue: Rescue, statement: str) -> None:
    silent = _worker(STALL_AFTER + 1)
    with _held(statement):
        _look_for(rescue, 1.0)
    _look_for(rescue, 0.3)
    assert not _given_up(silent)
    _look_for(rescue, SETTLE_IN + 0.5)
    assert _given_up(silent)


# ---- beats -----------------------------------------------------------------------------------------------------------


def test_a_beat_that_had_to_wait_says_when_it_was_written_and_not_when_it_began() -> None:
    vitals = Vitals(held=0, slots=1, free=1, rss=None, queues=["sms"], state="alive")
    card = Card(uuid.uuid4(), "sms1@host", "box1", 1, "prefork", [], {})
    beating = Heartbeat(card, lambda: vitals, on_given_up=lambda: None, on_drain=lambda wanted: None)
    beating.start()
    assert beating.wait_until_registered(10)
    try:
        with _held("SELECT 1 FROM celeriac_worker FOR UPDATE"):
            time.sleep(2.0)
            released = Worker.objects.get(pk=card.id).beat_at
            assert not beating.database_away
        wait_until(lambda: Worker.objects.get(pk=card.id).beat_at != released, what="the next beat", every=0.001)
        with connection.cursor() as cursor:
            cursor.execute("SELECT beat_at - %s FROM celeriac_worker WHERE id = %s", [released, card.id])
            (later,) = cursor.fetchone()
        # It had begun half a second after the last one, had it been let.
        assert later > timedelta(seconds=1.2)
    finally:
        beating.stop()


# ---- the lease -------------------------------------------------------------------------------------------------------


def test_the_lead_is_not_taken_from_who_has_it_because_the_databases_clock_was_set_forward() -> None:
    first, second = own_session("default"), own_session("default")
    try:
        leads = Leadership(first, "box1:1", ServerClock())
        stands_by = Leadership(second, "box2:2", ServerClock())

        def both(seconds: float) -> None:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                stands_by.hold()
                leads.hold()
                time.sleep(LOOK_EVERY / 10)

        wait_until(lambda: leads.hold() is not None, what="it leads", every=0.05)
        both(1.2)
        with clock.shift(60.0):
            both(1.2)
        assert (leads.term, stands_by.term) == (1, None)
    finally:
        first.close()
        second.close()
