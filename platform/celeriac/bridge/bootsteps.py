"""What a worker does beside Celery's own, put together: this life of it, from before the pool forks to the last hand-back."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from typing import Any, Final

import celery
import django
from celery import bootsteps, signals
from celery.utils.log import get_logger
from celery.worker import state as celery_state
from celery.worker.components import Pool
from celery.worker.consumer.tasks import Tasks
from django.db import DatabaseError, InterfaceError, connections

from celeriac import conf
from celeriac.bridge import sentry
from celeriac.bridge.anew import can_start_anew, start_anew
from celeriac.bridge.embedded import Embedded
from celeriac.bridge.handed import Handed
from celeriac.bridge.hearing import TURN_EVERY, Hearing
from celeriac.bridge.quarantine import Strange, refuse_garbage, set_aside
from celeriac.bridge.requests import JobRequest
from celeriac.bridge.slots import Slots
from celeriac.bridge.spooled import Replay
from celeriac.bridge.undertaker import Undertaker
from celeriac.bridge.watch import Watch
from celeriac.fleet import here as fleet_here
from celeriac.fleet.heartbeat import Card, Heartbeat, Vitals
from celeriac.fleet.here import Here
from celeriac.fleet.memory import Memory
from celeriac.fleet.page import Entry
from celeriac.fleet.sessions import let_go
from celeriac.ledger import queries, transitions
from celeriac.ledger.dialects.postgres_fleet import PATIENT
from celeriac.ledger.rows import Why
from celeriac.ledger.session import notice_silence
from celeriac.ledger.transitions import RESCUED
from celeriac.outcomes import Ref

logger = get_logger(__name__)

LOOK_FOR_DEAD_CHILDREN: Final = 0.2
#: Seconds that a loop without events waits for a slot before it looks at what else there is.
MAY_WAIT: Final = 0.5


class Incarnation(bootsteps.StartStopStep):
    """This life of the worker: created before the pool forks, started after it, ended with everything handed back.

    Its parts: ``heartbeat`` (beats, and learns of verdicts and drains), ``watch`` (limits and claims), ``undertaker`` (speaks for dead children),
    ``replay`` (the spool), ``hearing`` (does it consume?), ``embedded`` (a scheduler, where one is needed).
    """

    requires = (Pool,)

    def __init__(self, worker: Any, without_scheduler: bool = False, **kwargs: Any) -> None:
        super().__init__(worker, **kwargs)
        sentry.install()
        self._worker = worker
        self._can_start_anew = can_start_anew()
        self._beginning_anew = threading.Lock()
        self.stopping = False
        self.draining = False
        self._capacity = 1
        self._progress: tuple[int, frozenset[tuple[int, int]]] = (0, frozenset())
        notice_silence(PATIENT)
        self.here: Here = fleet_here.begin(worker.hostname)
        self.memory = Memory()
        self.slots = Slots()
        self.undertaker = Undertaker(worker.app, self.here.id, self.memory)
        self.replay = Replay(self.here)
        self.watch = Watch(
            self.here, self.undertaker, self.memory, self.children, each=self._each, on_stuck=self._stuck
        )
        self.hearing = Hearing(
            worker.app,
            self.here.id,
            may_take=lambda: self.may_take,
            busy_loop=lambda: self._pool_name() == "solo" and self.slots.held > 0,
            runs=lambda: bool(self.here.page.entries()),
            waits_for_children=self._waits_for_children,
            start_anew=self.start_anew,
            changed=lambda: self.heartbeat.hurry(),
        )
        self._handed = Handed(self.slots.calls, lambda: self.hearing.turns)
        self.heartbeat: Heartbeat
        wanted = conf.get("EMBED_SCHEDULER") and not without_scheduler
        self.embedded = Embedded(socket.gethostname(), os.getpid(), self.undertaker.write) if wanted else None
        self._joiner: Any = None
        self._turner: Any = None
        worker.celeriac = self
        signals.worker_process_init.connect(self._in_child, weak=False)
        signals.worker_shutting_down.connect(self._shutting_down, weak=False)
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
                host=socket.gethostname(),
                pid=os.getpid(),
                pool=self._pool_name(),
                tasks=sorted(name for name in app.tasks if not name.startswith("celery.")),
                versions={"celery": celery.__version__, "django": django.get_version()},
            ),
            self._vitals,
            on_given_up=self._given_up,
            on_drain=self._drain,
        )
        self.heartbeat.start()
        self.undertaker.start()
        self.replay.start(lambda: self.heartbeat.database_away)
        self.watch.start()
        self.hearing.start()
        self.heartbeat.wait_until_registered(10)

    def register_with_event_loop(self, worker: Any, hub: Any) -> None:
        """Say that the loop turns, and look for dead children often. Called again for each connection.

        A dying process closes its end of the pool's sentinel pipe before it can be waited for. Celery looks once when the pipe
        closes, stops watching it, and then looks every 5 s: whoever loses that race learns of a death 5 s late.
        """
        for timer in (self._turner, self._joiner):
            if timer is not None:
                timer.cancel()
        self._turner = hub.call_repeatedly(TURN_EVERY, self.hearing.turn)
        join = getattr(worker.pool, "maintain_pool", None)
        self._joiner = hub.call_repeatedly(LOOK_FOR_DEAD_CHILDREN, join) if join is not None else None

    # ---- how it ends ---------------------------------------------------------------------------------------------------

    def stop(self, worker: Any) -> None:
        """After the consumer: let what runs finish, write what is left, give back what still says that it runs here.

        Steps end in the reverse order of their start, so the pool's own step comes after this one: the pool is waited for here (a second
        stop finds it stopped).
        """
        self.hearing.stop()
        self._no_more()
        # A child that has settled its last job waits up to half a minute for us to read its result, and we don't read any more.
        self.watch.let_nobody_linger(_plain_tasks_run)
        worker.pool.stop()
        self._end()

    def terminate(self, worker: Any) -> None:
        """Cold: what runs is killed and handed back."""
        self._no_more()
        self.here.page.doom()
        worker.pool.terminate()
        self._end()

    def start_anew(self, reason: str, stuck: Entry | None = None) -> None:
        """End this incarnation at once, handing back what runs, and go on as a new one. Doesn't return where that is possible."""
        if not self._beginning_anew.acquire(blocking=False):
            return
        self._no_more()
        if not self._can_start_anew:
            logger.error("This worker ends: %s", reason)
            celery_state.should_stop = os.EX_TEMPFAIL
            return
        logger.error("This worker starts anew: %s", reason)
        self.here.page.doom()
        children = self.children()
        for pid in children:
            _kill(pid)
        if stuck is not None:
            self.undertaker.write(lambda: self.undertaker.end_stuck(stuck))
        self._end(f"started anew: {reason}")
        start_anew(children)

    def _end(self, why: str = "") -> None:
        self.hearing.stop()
        if self.embedded is not None:
            self.embedded.stop(5)
        self.undertaker.stop(10)
        self.watch.stop()
        self.replay.stop()
        self._hand_back_the_rest()
        self.heartbeat.stop(why=why)
        self.hearing.join(1)

    def _no_more(self) -> None:
        """Take no new message; children that die now were stopped by us."""
        self.stopping = self.undertaker.stopping_worker = True

    def _shutting_down(self, **kwargs: Any) -> None:
        """SIGTERM: nothing new; what runs has ``STOP_GRACE`` to finish, then it is stopped and handed back."""
        self._no_more()
        # Watched for by the watch's thread: a thread can't be started from a signal handler under gevent.
        self.watch.grace(conf.get("STOP_GRACE"))

    def _cold(self) -> None:
        """SIGQUIT: nothing new, and no grace beyond the soft shutdown's. Celery's handler goes on to wait for the pool."""
        self._soft_shutdown()
        self.watch.grace(0.0)
        self._no_more()

    def _drain(self, wanted: bool) -> None:
        """Asked for, or taken back: nothing new is taken; when nothing runs any more, the worker ends well."""
        self.draining = wanted
        events_say = "is draining: it takes nothing new, and ends when nothing runs" if wanted else "takes jobs again"
        logger.warning("This worker %s", events_say)
        self.heartbeat.hurry()

    def _given_up(self) -> None:
        """The scheduler gave this incarnation up: what runs here can't settle any more, and runs elsewhere.

        But for what is held for review: those outcomes are still welcome, and have the grace period.
        """
        self._no_more()
        entries = {Ref(e.job, e.fence): e for e in self.here.page.entries()}
        try:
            spared = queries.held_for_review(list(entries))
        except (DatabaseError, InterfaceError) as exc:
            logger.warning("Whether anything is held for review can't be asked: %s", exc)
            spared = set()
        connections.close_all()
        for ref in entries.keys() - spared:
            if entries[ref].pid != self.here.main_pid:
                self.watch.kill(entries[ref])
        ends = time.monotonic() + conf.get("STOP_GRACE")
        while spared and time.monotonic() < ends:
            time.sleep(0.1)
            spared &= {Ref(e.job, e.fence) for e in self.here.page.entries()}
        self.start_anew("it was given up while it was away")

    def _stuck(self, entry: Entry) -> None:
        """A run in a pool that can't kill it is past its deadline, and its policy is to restart the worker. The others may finish first."""

        def give_way() -> None:
            self._no_more()
            ends = time.monotonic() + conf.get("STOP_GRACE")
            while time.monotonic() < ends and any(e.job != entry.job for e in self.here.page.entries()):
                time.sleep(0.1)
            if self.here.page.read(entry.slot) == entry:
                self.start_anew(f"job {entry.job} is stuck past its hard limit of {entry.limit:g} s", entry)
            else:
                self.start_anew(f"job {entry.job} was stuck past its hard limit of {entry.limit:g} s")

        threading.Thread(target=give_way, name="celeriac-gives-way", daemon=True).start()

    def _hand_back_the_rest(self) -> None:
        try:
            rest = queries.running_on(self.here.id)
            why = Why("worker", "its worker was stopped", self.here.id)
            transitions.shift(
                "handed_back", rest, why, priority=RESCUED, wait=True, also=f"l.worker = '{self.here.id}'"
            )
        except (DatabaseError, InterfaceError) as exc:
            logger.warning("The database is away; the scheduler's rescue will hand back what ran here: %s", exc)

    # ---- how it does ---------------------------------------------------------------------------------------------------

    def capacity(self) -> int:
        """Slots of the pool as it is now; of one that has ended, as it was."""
        with contextlib.suppress(AttributeError):  # prefork's, once its processes are gone
            self._capacity = int(self._worker.pool.num_processes or 1)
        return self._capacity

    def children(self) -> list[int]:
        """Process ids of the pool."""
        pool = getattr(self._worker.pool, "_pool", None)
        return [process.pid for process in tuple(getattr(pool, "_pool", None) or ()) if getattr(process, "pid", None)]

    @property
    def may_take(self) -> bool:
        """Whether another message may be taken: a slot is free, the database answers, we aren't stopping."""
        away = self.heartbeat.database_away or self.stopping or self.draining
        return not away and self.slots.held < self.capacity()

    def _pool_name(self) -> str:
        return type(self._worker.pool).__module__.rsplit(".", 1)[-1]

    def _waits_for_children(self) -> bool:
        """A message was taken and nobody has begun with anything since, although the pool has a place for it and the database answers.

        Children that are always young are no sign: what counts is that calls begin or end.
        """
        entries = self.here.page.entries()
        progress = (self.slots.ended, frozenset((entry.job, entry.fence) for entry in entries))
        if progress != self._progress:
            self._progress = progress
            return False
        begun = len(entries)
        return begun < min(self.slots.held, self.capacity()) and not self.heartbeat.database_away

    def _vitals(self) -> Vitals:
        held, slots = self.slots.held, self.capacity()
        return Vitals(
            held=max(0, held - len(self.here.page.entries())),
            slots=slots,
            free=max(0, slots - held),
            rss=self.memory.total,
            queues=self._worker.app.amqp.queues.served,
            state="stopping" if self.stopping else "draining" if self.draining else self.hearing.state,
        )

    def _each(self, now: float) -> None:
        """Every look of the watch."""
        if self.embedded is not None and not self.stopping:
            self.embedded.look(now)
        self._handed.look(now)
        if self.draining and not self.stopping and not self.slots.held and not self.here.page.entries():
            self._no_more()
            celery_state.should_stop = os.EX_OK

    def _in_child(self, **kwargs: Any) -> None:
        """A pool child keeps none of the parent's sessions and dies with it."""
        if os.getpid() == self.here.main_pid:
            return  # the solo pool says so of the main process
        let_go()
        die_with(self.here.main_pid)


class TakeForFreeSlots(bootsteps.StartStopStep):
    """A message is taken only for a free slot: a busy worker that prefetches hoards what an idle one could run.

    Beside the queues that it was given the worker consumes one of its own.
    """

    requires = (Tasks,)

    def __init__(self, consumer: Any, **kwargs: Any) -> None:
        consumer.celeriac = consumer.controller.celeriac
        super().__init__(consumer, **kwargs)

    def start(self, consumer: Any) -> None:
        """On each (re)connection: the channel and its QoS are new."""
        state: Incarnation = consumer.celeriac
        consumer.task_consumer.add_queue(state.hearing.queue())
        if consumer.hub is None:
            _wait_for_slots(consumer.connection, state)
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
        read_first(channel, state.hearing.queue().name)


def read_first(channel: Any, own: str) -> None:
    """On Redis: what is addressed to this worker is taken before what anybody may take.

    kombu reads its queues in turns. What was lost with another worker comes by our own queue, is next to start, and would stand back here
    behind short jobs that came later. It never holds up the others for long: a worker is only ever sent as many as it has free slots.
    """
    cycle = channel._queue_cycle
    in_turns = cycle.consume

    def consume(count: int) -> list[str]:
        return sorted(in_turns(count), key=lambda name: name != own)

    cycle.consume = consume


def _wait_for_slots(connection: Any, state: Incarnation) -> None:
    """Without an event loop a poll that began while all slots were taken asks for no message, and lasts two seconds: wait for a slot instead."""
    drain = connection.drain_events

    def drain_events(timeout: float | None = None, **options: Any) -> Any:
        until = time.monotonic() + min(timeout or MAY_WAIT, MAY_WAIT)
        while not state.may_take:
            if not state.slots.wait_for_end(max(0.0, until - time.monotonic())):
                raise TimeoutError
        return drain(timeout=timeout, **options)

    connection.drain_events = drain_events


def _plain_tasks_run() -> bool:
    """Whether the pool is at something that isn't ours to see the end of."""
    try:
        return any(not isinstance(request, JobRequest) for request in celery_state.active_requests)
    except RuntimeError:  # the main loop has added one meanwhile: something runs, and we are asked again
        return True


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def die_with(parent: int) -> None:
    """This process dies when *parent* does.

    Linux: the kernel kills it when the thread of the parent that started it ends; what died before this call is caught by a look. Elsewhere: a
    look each second.
    """
    import ctypes

    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)  # 1 = PR_SET_PDEATHSIG
    else:
        threading.Thread(target=_look_for, args=(parent,), name="celeriac-orphan", daemon=True).start()
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _look_for(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)
