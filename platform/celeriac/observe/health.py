"""Is this host's worker, is this host's scheduler, is the platform well? Asked by probes, answered from what processes write of themselves.

A probe's answer restarts processes, so it has to be right about two things. A worker that is *busy* is well: nothing is asked of the worker
itself, only of its beats and of its witness lock. And when the database can't be asked nothing is known of anybody: restarting a fleet
because its database is away would do harm and no good.

The verdicts are pure functions over readings. The whole asking has one time budget: a database that accepts and never answers counts as away.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from django.db import Error as AnyDatabaseError

from celeriac import clock, conf
from celeriac.ledger.dialects import postgres_health as sql
from celeriac.ledger.session import own_session
from celeriac.models import Worker

What = Literal["worker", "scheduler", "all"]

#: Seconds for everything that a probe asks, connecting included.
BUDGET: Final = 4.0
#: A worker that hasn't beaten for so long is silent, a scheduler's loop that has made no pass for so long stands still. Seconds.
SILENT: Final = 5.0
#: A beat so young stands for the lock: after a restart of the database all locks are free for a moment.
FRESH: Final = 2.0
#: A worker that hasn't begun to consume after so long won't. Seconds.
STARTED: Final = 60.0

AWAY: Final = "unknown: the database is away; a restart would not help"


@dataclass(frozen=True, slots=True)
class Check:
    """One answer. ``reason`` says what was seen, also when all is well."""

    what: str
    healthy: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """All answers. ``healthy`` is what the exit code says."""

    healthy: bool
    status: Literal["healthy", "unhealthy", "unknown"]
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class WorkerReading:
    """What one incarnation last said of itself, and whether its witness lock is held. Ages in seconds."""

    hostname: str
    id: uuid.UUID
    state: str
    lock_held: bool
    silent: float
    age: float
    slots: int
    free: int
    queues: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SeatReading:
    """A scheduler that stands ready, and seconds since its loop last made a pass. ``holder`` is ``host:pid``."""

    seat: str
    holder: str
    silent: float


@dataclass(frozen=True, slots=True)
class LeaderReading:
    """The scheduler's lease."""

    term: int
    holder: str
    lock_held: bool
    silent: float


# ---- verdicts, pure --------------------------------------------------------------------------------------------------


def judge(checks: Iterable[Check]) -> Report:
    """All of them have to be well."""
    checks = tuple(checks)
    well = all(check.healthy for check in checks)
    return Report(well, "healthy" if well else "unhealthy", checks)


def unknown(what: What, why: str) -> Report:
    """The database couldn't be asked: no reason to restart a process, and no platform that is well."""
    return Report(what != "all", "unknown", (Check("database", False, f"{AWAY} ({why})" if why else AWAY),))


def worker(reading: WorkerReading, beat_every: float = 0.5) -> Check:
    """Whether one incarnation is alive and consumes, or has a good reason not to."""
    fault = _fault(reading, beat_every)
    seen = (
        fault or f"{reading.state}, {reading.free} of {reading.slots} slots free, last beat {reading.silent:.1f} s ago"
    )
    return Check(f"worker {reading.hostname} ({str(reading.id)[:8]})", fault is None, seen)


def _fault(reading: WorkerReading, beat_every: float) -> str | None:
    state = Worker.State
    # A project that has its workers beat less often must not have them restarted for it.
    if reading.silent > max(SILENT, 4 * beat_every):
        return f"silent: its last beat was {reading.silent:.1f} s ago, its lock is {'held' if reading.lock_held else 'free'}"
    if not reading.lock_held and reading.silent >= max(FRESH, 4 * beat_every):
        return f"its lock is free and its last beat was {reading.silent:.1f} s ago"
    if reading.state == state.DEAF:
        return "deaf: it is connected to the broker and what is sent to it doesn't arrive"
    if reading.state == state.WEDGED:
        return "wedged: its main loop makes no turn, though its heartbeat goes on"
    if reading.state == state.STARTING and reading.age > STARTED:
        return f"not consuming: it has been starting for {reading.age:.0f} s"
    return None


def workers_here(readings: Sequence[WorkerReading], where: str, beat_every: float = 0.5) -> Report:
    """This host's workers. *where* says which were asked for.

    A silent one that has a younger namesake is left to the scheduler: a container that was restarted has its host name again, and the
    new process must not fail for the old one's end.
    """
    fresh = max(FRESH, 4 * beat_every)
    judged = [r for r in readings if r.lock_held or r.silent < fresh or r is _youngest(readings, r.hostname)]
    if not judged:
        return judge([Check("worker", False, f"no incarnation of a worker is registered for {where}")])
    return judge(worker(reading, beat_every) for reading in judged)


def _youngest(readings: Sequence[WorkerReading], hostname: str) -> WorkerReading:
    return min((r for r in readings if r.hostname == hostname), key=lambda r: r.age)


def schedulers_here(seats: Sequence[SeatReading], host: str) -> Report:
    """This host's schedulers."""
    here = [seat for seat in seats if seat.holder.rpartition(":")[0] == host]
    if not here:
        return judge([Check("scheduler", False, f"no scheduler of host {host} stands ready")])
    return judge(_goes_round(seat) for seat in here)


def _goes_round(seat: SeatReading) -> Check:
    well = seat.silent <= SILENT
    seen = "" if well else "stands still: "
    return Check(f"scheduler {seat.holder}", well, f"{seen}its loop made a pass {seat.silent:.1f} s ago ({seat.seat})")


def platform(
    leader: LeaderReading | None,
    seats: Sequence[SeatReading],
    workers: Sequence[WorkerReading],
    queues_due: Sequence[str],
    beat_every: float = 0.5,
) -> Report:
    """Somebody leads, all workers are well, and what is due has somebody who takes it."""
    return judge(
        [
            _leads(leader),
            _stands_by(leader, seats),
            *(worker(reading, beat_every) for reading in workers),
            *(_consumed(queue, workers) for queue in queues_due),
        ]
    )


def _leads(leader: LeaderReading | None) -> Check:
    if leader is None or leader.term == 0:
        return Check("leader", False, "no scheduler has ever led")
    seen = f"{leader.holder}, term {leader.term}, renewed {leader.silent:.1f} s ago"
    if not leader.lock_held:
        return Check("leader", False, f"{seen}: its lock is free, it has gone")
    if leader.silent > SILENT:
        return Check("leader", False, f"{seen}: it stands still")
    return Check("leader", True, seen)


def _stands_by(leader: LeaderReading | None, seats: Sequence[SeatReading]) -> Check:
    ready = [s for s in seats if s.silent <= SILENT and (leader is None or s.holder != leader.holder)]
    if ready:
        return Check("standby", True, ", ".join(f"{seat.holder} ({seat.seat})" for seat in ready))
    return Check("standby", True, "note: no other scheduler stands ready to take over")


def _consumed(queue: str, workers: Sequence[WorkerReading]) -> Check:
    consume = [r.hostname for r in workers if queue in r.queues and r.state == Worker.State.ALIVE]
    if consume:
        return Check(f"queue {queue}", True, f"consumed by {', '.join(consume)}")
    return Check(f"queue {queue}", False, "jobs are due and no worker consumes it")


# ---- asking ----------------------------------------------------------------------------------------------------------


def ask(what: What, *, host: str, name: str | None = None, budget: float = BUDGET) -> Report:
    """Ask the ledger on a session of its own.

    Arguments:
        host: this host as its processes call it.
        name: only this node; ``worker`` only.
        budget: seconds after which the database counts as away.
    """
    answers: list[Report | BaseException] = []

    def look() -> None:
        try:
            answers.append(_look(what, host, name, budget))
        except BaseException as exc:  # raised in the asking thread
            answers.append(exc)

    # A thread, because no time-out of the client reaches everything: name look-up, hand-shake, a server that is stopped in mid-answer.
    asking = threading.Thread(target=look, name="celeriac-health", daemon=True)
    asking.start()
    asking.join(budget)
    answer = answers[0] if answers else TimeoutError(f"no answer within {budget:g} s")
    if isinstance(answer, Report):
        return answer
    if isinstance(answer, (AnyDatabaseError, TimeoutError)):
        return unknown(what, " ".join(str(answer).split())[:300])
    raise answer


def _look(what: What, host: str, name: str | None, budget: float) -> Report:
    beat_every, now = conf.get("BEAT_EVERY"), clock.now_sql()
    session = own_session(conf.alias())
    try:
        # LOCAL, in a transaction: a setting of the session would stay behind in a pool of connections.
        session.set_autocommit(False)
        with session.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {int(budget * 1000)}")

            def rows(question: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
                cursor.execute(question, params)
                return list(cursor.fetchall())

            return _answer(what, host, name, beat_every, now, rows)
    finally:
        session.close()


def _answer(
    what: What,
    host: str,
    name: str | None,
    beat_every: float,
    now: str,
    rows: Callable[..., list[tuple[Any, ...]]],
) -> Report:
    if what == "worker":
        where = f"host {host}" if name is None else f"node {name} on host {host}"
        return workers_here([WorkerReading(*row) for row in rows(sql.workers(now), [host, name])], where, beat_every)
    seats = [SeatReading(*row) for row in rows(sql.seats(now), [])]
    if what == "scheduler":
        return schedulers_here(seats, host)
    leaders = [LeaderReading(*row) for row in rows(sql.leader(now), [])]
    workers = [WorkerReading(*row) for row in rows(sql.workers(now), [None, None])]
    due = [row[0] for row in rows(sql.queues_due(now), [])]
    return platform(leaders[0] if leaders else None, seats, workers, due, beat_every)
