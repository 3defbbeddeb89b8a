"""An incarnation's own session: it registers, holds the witness lock, and beats.

Runs in a thread of the worker's main process. Every beat also learns whether we were given up; then ``on_given_up`` is called once and the
beating ends. While the database is away, ``database_away`` is true: the worker takes no new message, since no child could claim it.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, InterfaceError
from django.db.backends.base.base import BaseDatabaseWrapper

from celeriac import clock, conf, events
from celeriac.fleet.sessions import keep_from_children
from celeriac.ledger.dialects import postgres_fleet as sql
from celeriac.ledger.session import keep_alive, own_session

logger = logging.getLogger("celeriac")


@dataclass(frozen=True, slots=True)
class Card:
    """What a worker says of itself."""

    id: uuid.UUID
    hostname: str
    pid: int
    pool: str
    queues: list[str]
    tasks: list[str]
    slots: int
    versions: dict[str, str]


class Heartbeat:
    """Beats for *card* until stopped. *held* tells how many messages are taken and not yet claimed."""

    def __init__(
        self, card: Card, held: Callable[[], int], slots: Callable[[], int], on_given_up: Callable[[], None]
    ) -> None:
        self.card = card
        self.database_away = True
        self.stopping = False
        self._held = held
        self._slots = slots
        self._on_given_up = on_given_up
        self._lock_key = secrets.randbits(62)
        self._session: BaseDatabaseWrapper | None = None
        self._stop = threading.Event()
        self._first_beat = threading.Event()
        self._thread = threading.Thread(target=self._run, name="celeriac-heartbeat", daemon=True)
        self._queues = list(card.queues)
        self._registered = False
        keep_from_children(lambda: self._session)

    def start(self) -> None:
        """Begin to beat. The row is there when the database answers."""
        self._thread.start()

    def serves(self, queues: list[str]) -> None:
        """The queues consumed from now on; told with the next beat."""
        self._queues = list(queues)

    def wait_until_registered(self, seconds: float) -> bool:
        """Whether the first beat went through within *seconds*."""
        return self._first_beat.wait(seconds)

    def stop(self, state: str = "stopped") -> None:
        """End in good order: the row says so and the lock is freed."""
        self._stop.set()
        self._thread.join(timeout=5)
        if self._session is None or not self._registered:
            return
        try:
            if self._write(sql.end_worker(clock.now_sql()), [state]):
                events.emit("worker.stopped", worker=str(self.card.id), queue=",".join(self._queues))
            self._session.close()
        except (DatabaseError, InterfaceError) as exc:
            logger.warning(
                "The database is away, the scheduler will find out by itself that this worker has stopped: %s", exc
            )

    def _run(self) -> None:
        every = conf.get("BEAT_EVERY")
        while True:
            try:
                alive = self._beat()
            except (DatabaseError, InterfaceError, OSError) as exc:
                if not self.database_away:
                    logger.warning("The database is away: %s", exc)
                self.database_away = True
                self._drop_session()
                # A proxy restart or pg_terminate_backend frees our lock: we must be back before the next look.
                if self._stop.wait(min(0.2, every)):
                    return
                continue
            self.database_away = False
            self._first_beat.set()
            if not alive:
                events.emit(
                    "worker.gone", worker=str(self.card.id), reason="the scheduler has given this incarnation up"
                )
                self._on_given_up()
                return
            if self._stop.wait(every):
                return

    def _beat(self) -> bool:
        if self._session is None:
            session = own_session(conf.alias())
            session.ensure_connection()
            keep_alive(session)
            with session.cursor() as cursor:
                cursor.execute(sql.TAKE_WITNESS_LOCK, [self._lock_key])
            self._session = session
        if not self._registered:
            self._register()
            self._registered = True
            return True
        state = "stopping" if self.stopping else "alive"
        values = [self._held(), self._slots(), json.dumps(self._queues), state]
        return self._write(sql.beat(clock.now_sql()), values)

    def _register(self) -> None:
        card = self.card
        assert self._session is not None
        with self._session.cursor() as cursor:
            cursor.execute(
                sql.register_worker(clock.now_sql()),
                [
                    card.id,
                    card.hostname,
                    card.pid,
                    card.pool,
                    json.dumps(card.queues),
                    json.dumps(card.tasks),
                    card.slots,
                    json.dumps(card.versions),
                    self._lock_key,
                ],
            )
        events.emit(
            "worker.started",
            worker=str(card.id),
            queue=",".join(card.queues),
            reason=f"{card.pool}, {card.slots} slots",
        )

    def _write(self, statement: str, values: list[Any]) -> bool:
        """Run *statement* on our own row. Whether it was still there to be written."""
        assert self._session is not None
        with self._session.cursor() as cursor:
            cursor.execute(statement, [*values, self.card.id])
            return cursor.fetchone() is not None

    def _drop_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            try:
                session.close()
            except (DatabaseError, InterfaceError) as exc:
                logger.debug("Closing a broken session: %s", exc)
