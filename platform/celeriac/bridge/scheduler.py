"""The scheduler: one process leads, another stands by. Its loop is the list of what a leader does.

Everything that it decides is in the ledger and in the lease; killing it at any line loses nothing. A pass that finds work is followed by
another after ``POLL_BUSY``: jobs of milliseconds free their slots at that rate. An idle one waits longer and longer, up to ``POLL_MAX``, or until
the bell rings.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from celery.utils.time import rate
from django.db import DatabaseError, InterfaceError, connections
from kombu import Consumer, Queue
from psycopg.errors import LockNotAvailable

from celeriac import conf, events
from celeriac.bridge import sentry
from celeriac.bridge.policies import on_lost_of, on_stuck_of, rng
from celeriac.bridge.publisher import KombuPublisher
from celeriac.bridge.ringing import EXCHANGE, impatient
from celeriac.bridge.undertaker import args_repr
from celeriac.dispatch import sweep
from celeriac.dispatch.dispatch import BrokerAway, Dispatcher
from celeriac.fleet.leadership import Leadership
from celeriac.fleet.rescue import Rescue
from celeriac.fleet.seats import Seat
from celeriac.fleet.server_clock import ServerClock
from celeriac.guard import controls, limits
from celeriac.guard import switches as guard_switches
from celeriac.ledger import queries
from celeriac.ledger.dialects.postgres_fleet import IMPATIENT
from celeriac.ledger.session import do_not_wait, keep_alive, notice_silence
from celeriac.settle.decide import Decision, on_failure

logger = logging.getLogger("celeriac")

SWEEP_EVERY: Final = 0.5
SWITCHES_EVERY: Final = 0.2
SIT_EVERY: Final = 0.5


class Scheduler:
    """Runs until *stop* is set. *app* knows the broker and the tasks' policies.

    *booked*: the seat that a worker booked for this embedded scheduler; it ends when it has lost its place. Absent: it was started by hand.
    """

    def __init__(self, app: Any, stop: threading.Event | None = None, booked: int | None = None) -> None:
        sentry.install()
        self._app = app
        self._stop = stop or threading.Event()
        self._session = connections[conf.alias()]
        self._holder = f"{socket.gethostname()}:{os.getpid()}"
        self._server = ServerClock()
        self._leadership = Leadership(self._session, self._holder, self._server)
        self._seat = Seat(self._session, self._holder, booked)
        self._sat = float("-inf")
        self._publisher = KombuPublisher(app)
        self._dispatcher = Dispatcher(self._publisher, queries.held_by_workers)
        self._rescue = Rescue(self._session, TaskTypes(app), self._forget, self._server)
        self._ear = Ear(app)
        self._swept = 0.0
        self._switches = guard_switches.Switches()
        self._limits = limits.Limits()
        self._switches_read = float("-inf")
        self._connection: Any = None

    def run(self) -> None:
        """Lead or stand by until told to stop; then step down, so that the standby takes over at once."""
        pause = 0.0
        while not self._stop.is_set():
            try:
                worked = self._pass()
            except (DatabaseError, InterfaceError) as exc:
                if isinstance(exc.__cause__, LockNotAvailable):
                    # Somebody's open transaction holds a row that this pass wanted. The next pass asks again; we still lead.
                    logger.warning("A row is held by somebody else's transaction: %s", exc)
                    continue
                logger.warning("The database is away, the scheduler waits: %s", exc)
                self._session.close()
                self._stop.wait(0.5)
                continue
            busy = conf.get("POLL_BUSY")
            pause = busy if worked else max(pause * 2, busy)
            if worked or self._dispatcher.starved:
                # Nobody rings when a slot gets free: look again soon, and sooner after a pass that found something.
                pause = min(pause, conf.get("POLL_MIN"))
                self._stop.wait(pause)
                continue
            pause = min(max(pause, conf.get("POLL_MIN")), conf.get("POLL_MAX"))
            if self._ear.listen(pause, self._stop):
                pause = 0.0
        self._step_down()

    def _pass(self) -> bool:
        """One pass. Returns whether there was work."""
        self._look_at_session()
        term = self._leadership.hold()
        if time.monotonic() - self._sat >= SIT_EVERY:
            self._sat = time.monotonic()
            if not self._seat.keep() and term is None:
                events.emit("scheduler.standby", reason="its seat is taken; it ends", worker=self._holder)
                self._stop.set()
        if term is None:
            self._rescue.stand_by()
            return False
        if time.monotonic() - self._switches_read >= SWITCHES_EVERY:
            self._switches, self._switches_read = guard_switches.read(), time.monotonic()
            self._limits = limits.read(rates_of(self._app))
        switches = self._switches
        # Rescue first: what it gives back is then placed, and room made for it, before anything else is dispatched.
        worked = bool(self._rescue.look(term))
        worked |= bool(self._dispatcher.dispatch(term, switches, self._limits))
        if time.monotonic() - self._swept >= SWEEP_EVERY:
            self._swept = time.monotonic()
            worked |= bool(sweep.expire(term) + sweep.hold(term, switches) + sweep.release(term, switches))
        return worked

    def _look_at_session(self) -> None:
        """A session made anew holds no lock and has seen nothing: we don't lead, and judge nobody for a while."""
        self._session.ensure_connection()
        if self._session.connection is not self._connection:
            self._connection = self._session.connection
            keep_alive(self._session)
            do_not_wait(self._session)
            self._leadership = Leadership(self._session, self._holder, self._server)
            self._seat.session_is_new()
            self._rescue.evidence_is_young()

    def _step_down(self) -> None:
        try:
            self._leadership.step_down()
            self._seat.leave()
        except (DatabaseError, InterfaceError) as exc:
            logger.warning("The database is away, the lock is freed by the end of the session: %s", exc)
        self._publisher.close()
        self._ear.close()
        connections.close_all()

    def _forget(self, worker: uuid.UUID) -> None:
        """The own queue of a worker that was given up; its jobs are in the ledger."""
        try:
            self._publisher.forget(worker)
        except BrokerAway as exc:
            logger.info("The own queue of worker %s is left in the broker: %s", worker, exc)


class TaskTypes:
    """What the project's tasks say, for the rescue."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def on_lost(self, task_type: str) -> str:
        """Policy, then ``acks_late``, then the setting."""
        return on_lost_of(self._app.tasks.get(task_type))

    def on_stuck(self, task_type: str) -> str:
        """Its policy, or the default."""
        return on_stuck_of(self._app.tasks.get(task_type))

    def on_failure(self, task_type: str, error: BaseException, retry_count: int) -> Decision:
        """As its own worker would decide."""
        task = self._app.tasks.get(task_type)
        return on_failure(getattr(task, "policy", None), error, retry_count, rng)

    def args_repr(self, payload: str) -> str:
        """Redacted."""
        return args_repr(payload)


class Ear:
    """Listens for the bell between passes. The broker away: it just waits."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._consumer: Consumer | None = None
        self._deaf_until = 0.0
        self._rang = False

    def listen(self, seconds: float, stop: threading.Event) -> bool:
        """Wait up to *seconds*. Returns whether the bell rang."""
        if not conf.get("RING") or time.monotonic() < self._deaf_until:
            stop.wait(seconds)
            return False
        self._rang = False
        try:
            if self._consumer is None:
                self._open()
            assert self._consumer is not None
            self._consumer.connection.drain_events(timeout=seconds)
        except TimeoutError:
            pass
        except Exception as exc:  # any broker error: polling goes on, the ring is an acceleration
            logger.debug("The bell can't be heard for 5 s: %r", exc)
            self.close()
            self._deaf_until = time.monotonic() + 5.0
            stop.wait(seconds)
        return self._rang

    def close(self) -> None:
        """Give the connection up."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.connection.collect()

    def _open(self) -> None:
        connection = impatient(self._app)
        queue = Queue(
            f"celeriac.ear.{os.getpid()}",
            exchange=EXCHANGE,
            durable=False,
            auto_delete=True,
            exclusive=True,
            expires=60,
        )
        self._consumer = Consumer(connection, queues=[queue], on_message=self._on_ring, no_ack=True, auto_declare=True)
        self._consumer.consume()

    def _on_ring(self, message: Any) -> None:
        self._rang = True


def run_until_signalled(app: Any, booked: int | None = None) -> None:
    """The scheduler as a process: SIGTERM and SIGINT step down and end it."""
    stop = threading.Event()
    notice_silence(IMPATIENT)

    def end(signum: int, frame: FrameType | None) -> None:
        stop.set()

    handlers: dict[int, Callable[..., Any] | int | None] = {
        s: signal.signal(s, end) for s in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        Scheduler(app, stop, booked).run()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def rates_of(app: Any) -> dict[str, float]:
    """Starts a second of each task type that has a rate limit: set at run time (``control.rate_limit``), by the task, or by the app's default."""
    default = app.conf.task_default_rate_limit
    asked = {name: task.rate_limit if task.rate_limit is not None else default for name, task in app.tasks.items()}
    asked |= controls.rates()
    if app.conf.worker_disable_rate_limits:
        return {}
    return {name: rate(limit) for name, limit in asked.items() if limit not in (None, "", 0, "0")}
