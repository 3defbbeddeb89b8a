"""An incarnation's own session: it registers, holds the witness lock, and beats.

Runs in a thread of the worker's main process. Every beat says how the worker does, and learns whether it is to drain and whether it was given
up; then ``on_given_up`` is called once and the beating ends. While the database is away, ``database_away`` is true: the worker takes no new
message, since no child could claim it.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from django.db import DatabaseError, InterfaceError
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.errors import LockNotAvailable

from celeriac import clock, conf, events
from celeriac.fleet.sessions import keep_from_children
from celeriac.ledger.dialects import postgres_fleet as sql
from celeriac.ledger.session import do_not_wait, fetch, keep_alive, needn_t_last, own_session

logger = logging.getLogger("celeriac")

#: Seconds after which a database that hasn't answered counts as away.
ANSWERS_WITHIN: Final = 1.5


@dataclass(frozen=True, slots=True)
class Card:
    """What a worker says of itself once."""

    id: uuid.UUID
    hostname: str
    host: str
    pid: int
    pool: str
    tasks: list[str]
    versions: dict[str, str]


@dataclass(frozen=True, slots=True)
class Vitals:
    """What it says with every beat: messages taken and not yet claimed, slots, those without a pool call, bytes of memory, queues, state."""

    held: int
    slots: int
    free: int
    rss: int | None
    queues: list[str]
    state: str


class Heartbeat:
    """Beats for *card* until stopped, with what *vitals* says. *on_drain* is called when the wish that it drains appears or goes."""

    def __init__(
        self,
        card: Card,
        vitals: Callable[[], Vitals],
        *,
        on_given_up: Callable[[], None],
        on_drain: Callable[[bool], None],
    ) -> None:
        self.card = card
        self._away = True
        self._asked_at: float | None = None
        self._vitals = vitals
        self._on_given_up = on_given_up
        self._on_drain = on_drain
        self._draining = False
        self._lock_key = 0
        self._served_by = 0
        self._witnessed = True
        self._session: BaseDatabaseWrapper | None = None
        self._stop = threading.Event()
        self._now = threading.Event()
        self._first_beat = threading.Event()
        self._thread = threading.Thread(target=self._run, name="celeriac-heartbeat", daemon=True)
        self._registered = False
        keep_from_children(lambda: self._session)

    @property
    def database_away(self) -> bool:
        """It refuses us, or has not answered a beat for a while."""
        asked_at = self._asked_at
        return self._away or (asked_at is not None and time.monotonic() - asked_at > ANSWERS_WITHIN)

    def start(self) -> None:
        """Begin to beat. The row is there when the database answers."""
        self._thread.start()

    def hurry(self) -> None:
        """The next beat has news; it is due now."""
        self._now.set()

    def wait_until_registered(self, seconds: float) -> bool:
        """Whether the first beat went through within *seconds*."""
        return self._first_beat.wait(seconds)

    def stop(self, state: str = "stopped", why: str = "") -> None:
        """End in good order: the row says so and the lock is freed. *why* is kept as its verdict."""
        self._stop.set()
        self._now.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)
        if self._session is None or not self._registered:
            return
        try:
            if fetch(sql.end_worker(clock.now_sql()), [state, why, self.card.id], self._session):
                queues = ",".join(self._vitals().queues)
                events.emit("worker.stopped", worker=str(self.card.id), queue=queues, reason=why or None)
            self._session.close()
        except (DatabaseError, InterfaceError) as exc:
            logger.warning(
                "The database is away, the scheduler will find out by itself that this worker has stopped: %s", exc
            )

    def _run(self) -> None:
        every = conf.get("BEAT_EVERY")
        while not self._stop.is_set():
            self._now.clear()
            self._asked_at = time.monotonic()
            try:
                alive = self._beat()
            except (DatabaseError, InterfaceError, OSError) as exc:
                if isinstance(exc.__cause__, LockNotAvailable):
                    # Somebody's transaction holds our row. Asked anew at once: a beat that had waited would be as old as its wait.
                    self._asked_at = None
                    continue
                if not self._away:
                    logger.warning("The database is away: %s", exc)
                self._away = True
                self._drop_session()
                # A proxy restart or pg_terminate_backend frees our lock: we must be back before the next look.
                self._stop.wait(min(0.2, every))
                continue
            self._asked_at = None
            self._away = False
            self._first_beat.set()
            if not alive:
                events.emit(
                    "worker.gone", worker=str(self.card.id), reason="the scheduler has given this incarnation up"
                )
                self._on_given_up()
                return
            self._now.wait(every)

    def _beat(self) -> bool:
        """Whether we are still alive, as far as the ledger knows."""
        if self._session is None:
            self._session = self._opened()
        now, vitals = clock.now_sql(), self._vitals()
        if not self._registered:
            self._register(vitals)
            self._registered = True
        values: list[Any] = [
            vitals.held,
            vitals.slots,
            vitals.free,
            vitals.rss,
            json.dumps(vitals.queues),
            vitals.state,
        ]
        rows = fetch(sql.beat(now), [*values, self._lock_key, self._witnessed, self.card.id], self._session)
        if not rows:
            return False
        draining, served_by = rows[0]
        if draining != self._draining:
            self._draining = draining
            self._on_drain(draining)
        if served_by != self._served_by and self._witnessed:
            # A proxy gives each statement whatever session it has free: the lock is somebody's, and says nothing of us.
            self._witnessed = False
            logger.error(
                "The database is behind a proxy that pools transactions: this worker's beats alone say that it lives, and "
                "its jobs run again only after CELERIAC['STALL_AFTER'] when it dies. Give the ledger a direct session."
            )
        return True

    def _opened(self) -> BaseDatabaseWrapper:
        session = own_session(conf.alias())
        session.ensure_connection()
        keep_alive(session)
        needn_t_last(session)
        do_not_wait(session)
        with session.cursor() as cursor:
            while True:
                # A key of its own each time: the server may not have noticed yet that our last session is dead, and holds its lock.
                self._lock_key = secrets.randbits(31)
                cursor.execute(sql.TAKE_WITNESS_LOCK, [self._lock_key])
                taken, self._served_by = cursor.fetchone()
                if taken:
                    return session

    def _register(self, vitals: Vitals) -> None:
        card = self.card
        assert self._session is not None
        with self._session.cursor() as cursor:
            cursor.execute(
                sql.register_worker(clock.now_sql()),
                [
                    card.id,
                    card.hostname,
                    card.host,
                    card.pid,
                    card.pool,
                    json.dumps(vitals.queues),
                    json.dumps(card.tasks),
                    vitals.slots,
                    json.dumps(card.versions),
                    self._lock_key,
                ],
            )
        events.emit(
            "worker.started",
            worker=str(card.id),
            queue=",".join(vitals.queues),
            reason=f"{card.pool}, {vitals.slots} slots",
        )

    def _drop_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            try:
                session.close()
            except (DatabaseError, InterfaceError) as exc:
                logger.debug("Closing a broken session: %s", exc)
