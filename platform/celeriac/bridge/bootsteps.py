"""What a worker does beside Celery's own: beat, watch hard limits, replay the spool, take only what it has a slot for, stop well."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import Any, Final

import celery
import django
from celery import bootsteps, signals
from celery.utils.log import get_logger
from celery.worker.components import Pool
from celery.worker.consumer.tasks import Tasks

from celeriac import conf
from celeriac.bridge.quarantine import Strange, refuse_garbage, set_aside
from celeriac.bridge.slots import Slots
from celeriac.bridge.spooled import Replay
from celeriac.bridge.undertaker import Undertaker
from celeriac.fleet import here as fleet_here
from celeriac.fleet.heartbeat import Card, Heartbeat
from celeriac.fleet.here import Here
from celeriac.fleet.rescue import unfinished_of
from celeriac.fleet.sessions import let_go
from celeriac.ledger import transitions
from celeriac.ledger.rows import Why
from celeriac.ledger.transitions import RESCUED

logger = get_logger(__name__)

LOOK_AT_LIMITS: Final = 0.05
LOOK_FOR_DEAD_CHILDREN: Final = 0.2


class Incarnation(bootsteps.StartStopStep):
    """This life of the worker: created before the pool forks, started after it, ended with everything handed back."""

    requires = (Pool,)

    def __init__(self, worker: Any, **kwargs: Any) -> None:
        super().__init__(worker, **kwargs)
        self.here: Here = fleet_here.begin(worker.hostname)
        self.undertaker = Undertaker(self.here.id)
        self.slots = Slots()
        self.replay = Replay(self.here)
        self.heartbeat: Heartbeat
        self._ended = threading.Event()
        self._grace_ends: float | None = None
        self._watch: threading.Thread
        self._joiner: Any = None
        worker.celeriac = self
        signals.worker_process_init.connect(self._in_child, weak=False)
        signals.worker_shutting_down.connect(self._shutting_down, weak=False)
        self._worker = worker
        self._soft_shutdown = worker.wait_for_soft_shutdown
        # The first thing that Celery's handler of SIGQUIT calls, and nobody else: its own signal comes when the pool has ended.
        worker.wait_for_soft_shutdown = self._cold

    def start(self, worker: Any) -> None:
        """Beat, and be known to the ledger before the first message is taken."""
        app = worker.app
        self.slots.count(worker.pool)
        self.heartbeat = Heartbeat(
            Card(
                id=self.here.id,
                hostname=worker.hostname,
                pid=os.getpid(),
                pool=type(worker.pool).__module__.rsplit(".", 1)[-1],
                queues=app.amqp.queues.served,
                tasks=sorted(name for name in app.tasks if not name.startswith("celery.")),
                slots=self.capacity(),
                versions={"celery": celery.__version__, "django": django.get_version()},
            ),
            held=lambda: max(0, self.slots.held - len(self.here.page.entries())),
            slots=self.capacity,
            on_given_up=self._given_up,
        )
        self.heartbeat.start()
        self.undertaker.start()
        self.replay.start(lambda: self.heartbeat.database_away)
        self._watch = threading.Thread(target=self._watch_limits, name="celeriac-limits", daemon=True)
        self._watch.start()
        self.heartbeat.wait_until_registered(10)

    def register_with_event_loop(self, worker: Any, hub: Any) -> None:
        """Look for dead children often. Called again for each connection.

        A dying process closes its end of the pool's sentinel pipe before it can be waited for. Celery looks once when the pipe
        closes, stops watching it, and then looks every 5 s: whoever loses that race learns of a death 5 s late.
        """
        join = getattr(worker.pool, "maintain_pool", None)
        if join is None:
            return
        if self._joiner is not None:
            self._joiner.cancel()
        self._joiner = hub.call_repeatedly(LOOK_FOR_DEAD_CHILDREN, join)

    def stop(self, worker: Any) -> None:
        """After the consumer: let what runs finish, write what is left, give back what still says that it runs here.

        Steps end in the reverse order of their start, so the pool's own step comes after this one: the pool is waited for here (a second
        stop finds it stopped).
        """
        worker.pool.stop()
        self._end()

    def terminate(self, worker: Any) -> None:
        """Cold: what runs is killed and handed back."""
        self.heartbeat.stopping = self.undertaker.stopping_worker = True
        self.here.page.doom()
        worker.pool.terminate()
        self._end()

    def _end(self) -> None:
        self._ended.set()
        self.undertaker.stop(10)
        self.replay.stop()
        self._hand_back_the_rest()
        self.heartbeat.stop()

    def capacity(self) -> int:
        """Slots of the pool as it is now."""
        return int(self._worker.pool.num_processes or 1) if self._worker.pool is not None else 1

    @property
    def may_take(self) -> bool:
        """Whether another message may be taken: a slot is free, the database answers, we aren't stopping."""
        return not (self.heartbeat.database_away or self.heartbeat.stopping) and self.slots.held < self.capacity()

    def _in_child(self, **kwargs: Any) -> None:
        """A pool child keeps none of the parent's sessions and dies with it."""
        if os.getpid() == self.here.main_pid:
            return  # the solo pool says so of the main process
        let_go()
        _die_with(self.here.main_pid)

    def _given_up(self) -> None:
        """The scheduler gave this incarnation up: what runs here can't settle any more. A new one is started by the supervisor."""
        from celery.worker import state

        logger.error("This worker was given up while it was away; it stops so that its supervisor starts it anew")
        self._shutting_down()
        state.should_stop = os.EX_TEMPFAIL

    def _shutting_down(self, **kwargs: Any) -> None:
        """SIGTERM: nothing new; what runs has ``STOP_GRACE`` to finish, then it is stopped and handed back."""
        self.heartbeat.stopping = True
        self.undertaker.stopping_worker = True
        # Watched for by the limits' thread: a thread can't be started from a signal handler under gevent.
        if self._grace_ends is None:
            self._grace_ends = time.monotonic() + conf.get("STOP_GRACE")

    def _cold(self) -> None:
        """SIGQUIT: nothing new, and no grace beyond the soft shutdown's. Celery's handler goes on to wait for the pool."""
        self._soft_shutdown()
        self._grace_ends = time.monotonic()
        self._shutting_down()

    def _hand_back_the_rest(self) -> None:
        from django.db import DatabaseError, InterfaceError

        try:
            rest = unfinished_of(self.here.id)
            why = Why("worker", "its worker was stopped", self.here.id)
            transitions.shift(
                "handed_back", rest, why, priority=RESCUED, wait=True, also=f"l.worker = '{self.here.id}'"
            )
        except (DatabaseError, InterfaceError) as exc:
            logger.warning("The database is away; the scheduler's rescue will hand back what ran here: %s", exc)

    def _watch_limits(self) -> None:
        """Hard limits, in every delivery, and the end of the grace period: kill first; the undertaker settles after the exit."""
        while not self._ended.wait(LOOK_AT_LIMITS):
            now = time.monotonic()
            over = self._grace_ends is not None and now > self._grace_ends
            for entry in self.here.page.entries():
                if entry.pid == self.here.main_pid or not (over or entry.overrun(now)):
                    continue  # solo and threads: the main process can't be killed for one job; its deadline decides
                if self.here.page.read(entry.slot) != entry:
                    continue
                if over:
                    logger.warning("The grace period is over: job %s is stopped and handed back", entry.job)
                else:
                    logger.error(
                        "Hard time limit (%ss) exceeded by job %s in child %s", entry.limit, entry.job, entry.pid
                    )
                    self.undertaker.will_kill(entry)
                self.here.page.forget(entry.pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(entry.pid, signal.SIGKILL)


class TakeForFreeSlots(bootsteps.StartStopStep):
    """A message is taken only for a free slot: a busy worker that prefetches hoards what an idle one could run."""

    requires = (Tasks,)

    def __init__(self, consumer: Any, **kwargs: Any) -> None:
        consumer.celeriac = consumer.controller.celeriac
        super().__init__(consumer, **kwargs)

    def start(self, consumer: Any) -> None:
        """On each (re)connection: the channel and its QoS are new."""
        state: Incarnation = consumer.celeriac
        if consumer.connection.transport.driver_type != "redis":
            return  # prefetch is the number of slots there
        channel = consumer.task_consumer.channel
        qos = channel.qos
        below_prefetch = qos.can_consume

        def can_consume() -> bool:
            return state.may_take and below_prefetch()

        qos.can_consume = can_consume

        def take(strange: Strange) -> None:
            set_aside(strange, state)

        refuse_garbage(channel, take)


def _die_with(parent: int) -> None:
    """Linux: the kernel kills this child when the parent's main thread ends; what died between fork and this call is caught by a look."""
    import ctypes
    import sys

    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(1, signal.SIGKILL, 0, 0, 0)  # 1 = PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
