"""One pass of the scheduler's main work: due jobs become messages, and what was lost on the way is sent again.

The broker is disposable: a job is DISPATCHED in the ledger first, then published. What can go wrong between is answered here:

* publishing fails: the jobs are withdrawn (their fence is raised, so that a message that did arrive can't claim) and nothing is staged
  until the broker answers again;
* the process dies in between: the next leader sends again what an older term staged;
* the broker forgets: a sentinel key with a nonce is missing (wiped), or a queue there is shorter than what the ledger has dispatched in
  three looks over two seconds. Without such evidence a job is sent again after a growing delay, for ever.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from celeriac import events
from celeriac.dispatch.suspects import place
from celeriac.dispatch.window import Pace, overtaken, rooms, starved
from celeriac.guard.limits import Buckets, Limits
from celeriac.guard.switches import Switches
from celeriac.ledger import queries, transitions
from celeriac.ledger.queries import Demand, Place
from celeriac.ledger.rows import Staged, Why

LOOK_EVERY: Final = 0.5
SHORT_LOOKS: Final = 3
SHORT_SECONDS: Final = 2.0
PROBE_EVERY: Final = 0.5
NO_LIMITS: Final = Limits()


class BrokerAway(Exception):
    """The broker did not take a message."""


class Publisher(Protocol):
    """The broker, as dispatch sees it. Every method raises :class:`BrokerAway` within its time budget."""

    def publish(self, job: Staged, term: int) -> None:
        """Send one message."""

    def depth(self, place: Place) -> int | None:
        """Messages of ours that wait in the broker queue of *place*; ``None`` where the broker can't say."""

    def forget(self, worker: uuid.UUID) -> None:
        """Delete the own queue of a worker that has ended."""

    def plant_sentinel(self) -> None:
        """Leave a nonce in the broker that a wiped broker doesn't have."""

    def sentinel_stands(self) -> bool:
        """Whether the nonce is still there. ``True`` where the broker can't keep one."""


class Dispatcher:
    """Dispatches for the leading scheduler. *held* says how many messages live workers have taken and not yet claimed, per place."""

    def __init__(self, publisher: Publisher, held: Callable[[], Mapping[Place, int]]) -> None:
        self._publisher = publisher
        self._held = held
        self._away_since: float | None = None
        self._probed = 0.0
        self._looked = 0.0
        self._short: dict[Place, list[float]] = {}
        self._term: int | None = None
        self._pace = Pace()
        self._buckets = Buckets()
        self.starved = False
        """Whether something waits for nothing but a slot, as of the last pass."""

    @property
    def broker_away(self) -> bool:
        """Whether publishing fails at the moment."""
        return self._away_since is not None

    def dispatch(self, term: int, switches: Switches, limits: Limits = NO_LIMITS) -> int:
        """One pass under *term*. Returns how many messages were sent."""
        if term != self._term:
            self._term = term
            self._short.clear()
            self._looked = 0.0
            self._plant()
        if self.broker_away and not self._answers_again():
            return 0
        sent = self._send_again(term)
        if not self.broker_away:
            staged, reserved = self._rescued(term, switches)
            demands = self._let_pass(queries.demands(switches.types), term, switches, reserved)
            now = time.monotonic()
            room = rooms(demands, switches.queues, self._pace.brisk(demands, now), reserved)
            most: dict[str, int] = {}
            if limits:
                room, most = self._within(limits, room, now)
            self.starved = bool(reserved) or starved(demands, room, switches.queues)
            full = {task_type for task_type, number in most.items() if number < 1}
            staged += transitions.stage(term, room, switches.types | full, {t: n for t, n in most.items() if n > 0})
            self._buckets.spend(job.task_type for job in staged)
            sent += self._publish(staged, term)
            for job in staged:
                self._pace.note(job.queue, 1, now)
                events.emit(
                    "job.dispatched",
                    job_id=job.public_id,
                    trace_id=job.trace,
                    task_type=job.task_type,
                    queue=job.queue,
                    attempt=job.attempt,
                    worker=str(job.worker) if job.worker else None,
                )
        return sent

    def _within(self, limits: Limits, room: dict[str, int], now: float) -> tuple[dict[str, int], dict[str, int]]:
        """*room* within the limits of queues, and how many more jobs may be dispatched of each limited type."""
        by_queue, by_type = (
            queries.under_way(limits.queues, limits.types) if limits.queues or limits.types else ({}, {})
        )
        for queue, number in limits.queues.items():
            if queue in room:
                room[queue] = min(room[queue], number - by_queue.get(queue, 0))
        most = self._buckets.room(limits.rates, now)
        for task_type, number in limits.types.items():
            left = max(0, number - by_type.get(task_type, 0))
            most[task_type] = min(left, most.get(task_type, left))
        return {queue: number for queue, number in room.items() if number > 0}, most

    def _rescued(self, term: int, switches: Switches) -> tuple[list[Staged], dict[str, int]]:
        """Suspects first: what is staged for workers of their own, and the queues where the next free slot is a suspect's."""
        suspects = queries.suspects_due(switches.types, switches.queues)
        if not suspects:
            return [], {}
        placed = place(suspects, queries.rooms_for_suspects())
        return transitions.address(term, placed.jobs), placed.reserved

    def _let_pass(
        self, demands: list[Demand], term: int, switches: Switches, reserved: Collection[str]
    ) -> list[Demand]:
        """Take back what would run before a due job of a higher priority although no slot is free for it yet.

        The window holds at least one message, so that a slot that frees up finds its next job at once: chosen before the more
        urgent one came. Its fence is raised; the message stays in the broker and can't claim. Returns the demands as they are then.
        """
        why = Why(f"scheduler, term {term}", "a job of a higher priority goes first")
        while queues := overtaken(demands, switches.queues, reserved):
            found = queries.last_in_line(queues)
            moved = {move.ref for move in transitions.shift("withdrawn", [f.ref for f in found], why)}
            freed = {f.queue for f in found if f.ref in moved}
            demands = [replace(d, dispatched=d.dispatched - 1) if d.queue in freed else d for d in demands]
            if not freed or not reserved:
                break
        return demands

    def _publish(self, jobs: Sequence[Staged], term: int) -> int:
        for position, job in enumerate(jobs):
            try:
                self._publisher.publish(job, term)
            except BrokerAway as exc:
                self._went_away(exc)
                self._withdraw(jobs[position:], f"the broker did not take it: {exc}", term)
                return position
        return len(jobs)

    def _withdraw(self, jobs: Sequence[Staged], reason: str, term: int) -> None:
        transitions.shift("withdrawn", [job.ref for job in jobs], Why(f"scheduler, term {term}", reason))
        for job in jobs:
            events.emit(
                "job.withdrawn",
                job_id=job.public_id,
                trace_id=job.trace,
                task_type=job.task_type,
                queue=job.queue,
                reason=reason,
            )

    def _send_again(self, term: int) -> int:
        """What older terms staged, at once; the rest on evidence, or when its delay is over."""
        if time.monotonic() - self._looked < LOOK_EVERY:
            return 0
        self._looked = time.monotonic()
        try:
            wiped = not self._publisher.sentinel_stands()
            if wiped:
                self._publisher.plant_sentinel()
            short = self._places_that_are_short()
        except BrokerAway as exc:
            self._went_away(exc)
            return 0
        jobs = transitions.again(
            term,
            everything=wiped,
            short=[p.queue for p in short if p.worker is None],
            short_workers=[p.worker for p in short if p.worker is not None],
        )
        reason = (
            "the broker was wiped"
            if wiped
            else "its message is missing"
            if short
            else "an older term staged it, or nobody claimed it in time"
        )
        for job in jobs:
            events.emit(
                "job.sent_again",
                job_id=job.public_id,
                trace_id=job.trace,
                task_type=job.task_type,
                queue=job.queue,
                reason=reason,
            )
        return self._publish(jobs, term)

    def _places_that_are_short(self) -> list[Place]:
        """Where broker and workers together hold fewer than the ledger has dispatched, in three looks over two seconds."""
        now = time.monotonic()
        dispatched = queries.dispatched_by_place()
        held = self._held()
        short = []
        for where, count in dispatched.items():
            depth = self._publisher.depth(where)
            if depth is None or depth + held.get(where, 0) >= count:
                self._short.pop(where, None)
                continue
            looks = self._short.setdefault(where, [])
            looks.append(now)
            if len(looks) >= SHORT_LOOKS and now - looks[0] >= SHORT_SECONDS:
                short.append(where)
                del self._short[where]
        for where in self._short.keys() - dispatched.keys():
            del self._short[where]
        return short

    def _plant(self) -> None:
        try:
            self._publisher.plant_sentinel()
        except BrokerAway as exc:
            self._went_away(exc)

    def _went_away(self, exc: Exception) -> None:
        if self._away_since is None:
            self._away_since = time.monotonic()
            events.emit("scheduler.broker_away", reason=str(exc))
        self._probed = time.monotonic()

    def _answers_again(self) -> bool:
        if time.monotonic() - self._probed < PROBE_EVERY:
            return False
        self._probed = time.monotonic()
        try:
            stands = self._publisher.sentinel_stands()
        except BrokerAway:
            return False
        if not stands:
            self._looked = 0.0
        assert self._away_since is not None
        events.emit("scheduler.broker_back", cost_ms=round((time.monotonic() - self._away_since) * 1000))
        self._away_since = None
        return True
