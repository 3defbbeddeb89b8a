"""Judges incarnations by two witnesses, and gives the jobs of the dead back. Both are standing queries of the leading scheduler.

Gone: the lock is free *and* no beat for ``GONE_AFTER``. Stalled: the lock is held, no beat for ``STALL_AFTER``. A free lock alone is no proof:
``pg_terminate_backend`` and a proxy's restart free it too, and the worker is back within 200 ms.
Nobody is judged while the evidence is young: the database or our own session younger than ``SETTLE_IN``, our own pass late, the database's
clock just set, or somebody's transaction holding the row or the table that beats are written to.
More than half of the fleet late together points at us or the database: the verdict waits three times ``STALL_AFTER``.

Who is charged: a whole worker's loss says nothing of who did it, so its jobs run again as *suspects* (``dispatch.suspects``), and only a
loss with exactly one suspect aboard is charged to that one.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.errors import LockNotAvailable

from celeriac import clock, conf, events
from celeriac.errors import HardTimeLimit, WorkerLost
from celeriac.fleet.server_clock import ServerClock
from celeriac.ledger import queries, transitions
from celeriac.ledger.dialects import postgres_fleet as sql
from celeriac.ledger.rows import Moved, Why
from celeriac.ledger.transitions import RESCUED
from celeriac.models import Job
from celeriac.outcomes import Outcome, Ref
from celeriac.settle.decide import Decision, on_lost
from celeriac.settle.settle import redactor, spoken_for, told
from celeriac.states import ParkedReason, Status

logger = logging.getLogger("celeriac")

LOOK_EVERY = 0.5
BATCH = 500


class Tasks(Protocol):
    """What the project says of its task types."""

    def on_lost(self, task_type: str) -> str:
        """ "again", "review" or "fail"."""

    def on_stuck(self, task_type: str) -> str:
        """ "review" or "restart"."""

    def on_failure(self, task_type: str, error: BaseException, retry_count: int) -> Decision:
        """What its policy says to a failed attempt."""

    def args_repr(self, payload: str) -> str:
        """Redacted arguments, for a dead letter."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Both witnesses on one incarnation, and what it last said of its memory."""

    id: uuid.UUID
    hostname: str
    silent: float
    lock_held: bool
    witnessed: bool
    rss: int | None = None


def verdict(reading: Reading, fleet_late: bool) -> str | None:
    """Why an incarnation is given up, with both readings; ``None`` while it isn't. Pure."""
    stall_after = conf.get("STALL_AFTER") * (3 if fleet_late else 1)
    memory = f"; its processes had {reading.rss / 2**20:.0f} MB then" if reading.rss else ""
    if reading.witnessed and not reading.lock_held and not fleet_late and reading.silent >= conf.get("GONE_AFTER"):
        return f"gone: its lock is free and its last beat was {reading.silent:.1f} s ago{memory}"
    if reading.silent >= stall_after:
        held = "held" if reading.lock_held else "free"
        late = ", and so is more than half of the fleet" if fleet_late else ""
        return f"stalled: no beat for {reading.silent:.1f} s{late}, its lock is {held}{memory}"
    return None


@dataclass(frozen=True, slots=True)
class Orphan:
    """A RUNNING job whose incarnation has ended."""

    ref: Ref
    task_type: str
    worker: uuid.UUID
    suspicion: int
    lost_count: int
    gone: bool
    """Given up; else the worker ended in good order and could not hand it back."""
    verdict: str
    suspects: int

    @property
    def charged(self) -> bool:
        """Whether this loss is held against it: it was the only suspect aboard."""
        return self.gone and self.suspicion > 0 and self.suspects == 1


class Rescue:
    """Looks twice a second on the leader's *session*. *forget* is told of each worker that has been given up; *server* is told the time."""

    def __init__(
        self, session: BaseDatabaseWrapper, tasks: Tasks, forget: Callable[[uuid.UUID], None], server: ServerClock
    ) -> None:
        self._session = session
        self._server = server
        self._tasks = tasks
        self._forget = forget
        self._looked = 0.0
        self._young_since = time.monotonic()
        self._fleet_late = False

    def evidence_is_young(self) -> None:
        """The session was made anew, or beats can't be written: from now on it grows old."""
        self._young_since = time.monotonic()

    def stand_by(self) -> None:
        """Another scheduler leads; we go round all the same, and are not late when our turn comes."""
        self._looked = time.monotonic()

    def look(self, term: int) -> int:
        """Judge and rescue if it is time to. Returns how many jobs were given back."""
        now = time.monotonic()
        pause = now - self._looked
        if pause < LOOK_EVERY:
            return 0
        self._looked = now
        late = pause > LOOK_EVERY + 1.0
        if not late and not self._young():
            self._judge(term)
        done = self._give_back(term)
        # Asked again: the evidence may have turned out to be young.
        return done if late or self._young() else done + self._end_overrun(term)

    def _young(self) -> bool:
        settle_in = conf.get("SETTLE_IN")
        return time.monotonic() - self._young_since < settle_in or self._server.stepped_within(settle_in)

    def _judge(self, term: int) -> None:
        try:
            self._judge_by(self._readings(), term)
        except OperationalError as exc:
            if not isinstance(exc.__cause__, LockNotAvailable):
                raise
            logger.warning("Somebody's transaction holds what beats are written to; nobody is judged: %s", exc)
            self.evidence_is_young()

    def _readings(self) -> list[Reading]:
        asked = time.monotonic()
        with self._session.cursor() as cursor:
            cursor.execute(sql.readings(clock.now_sql()), [conf.get("SETTLE_IN")])
            rows = cursor.fetchall()
        if rows:
            self._server.saw(asked, rows[0][0])
        # Set since it was last looked at: these very readings are what it spoils.
        return [] if self._young() else [Reading(*row[1:]) for row in rows]

    def _judge_by(self, readings: Sequence[Reading], term: int) -> None:
        now = clock.now_sql()
        with self._session.cursor() as cursor:
            silent = sum(r.silent >= conf.get("GONE_AFTER") and r.lock_held for r in readings)
            fleet_late = len(readings) > 2 and silent * 2 > len(readings)
            if fleet_late and not self._fleet_late:
                events.emit("fleet.late", reason=f"{silent} of {len(readings)} workers are late together")
            self._fleet_late = fleet_late
            for reading in readings:
                why = verdict(reading, fleet_late)
                if why is None:
                    continue
                cursor.execute(sql.give_up(now), [reading.id, reading.silent * 0.9, term, why])
                if cursor.fetchone():
                    events.emit("worker.gone", worker=str(reading.id), reason=f"{reading.hostname}: {why}")
                    self._forget(reading.id)

    # ---- jobs of incarnations that have ended --------------------------------------------------------------------------

    def _give_back(self, term: int) -> int:
        """In batches; what comes back is next to start. Also what is on its way to a worker that no longer reads."""
        with self._session.cursor() as cursor:
            cursor.execute(sql.ADDRESSED_TO_NOBODY, [BATCH])
            addressed = cursor.fetchall()
            cursor.execute(sql.ORPHANS, [BATCH])
            orphans = [Orphan(Ref(row[0], row[1]), *row[2:]) for row in cursor.fetchall()]
        who = f"scheduler, term {term}"
        for worker, rows in groupby(addressed, key=lambda row: row[2]):
            why = Why(who, "the worker whose own queue it was in is gone, or consumes no more", worker)
            transitions.shift("withdrawn", [Ref(row[0], row[1]) for row in rows], why)
        again = [o for o in orphans if not o.charged and self._tasks.on_lost(o.task_type) == "again"]
        done = 0
        for orphan in orphans:
            if orphan not in again:
                done += self._answered(orphan)
        for (worker, gone, suspicion), group in groupby(again, key=lambda o: (o.worker, o.gone, o.suspicion)):
            jobs = list(group)
            why = Why(who, jobs[0].verdict or "its worker has ended", worker)
            if gone:
                refs = [o.ref for o in jobs]
                moved = transitions.shift("rescued", refs, why, priority=RESCUED, suspicion=suspicion + 1)
            else:
                moved = transitions.shift("handed_back", [o.ref for o in jobs], why, priority=RESCUED)
            self._say(moved, jobs, why.reason)
            done += len(moved)
        return done

    def _answered(self, orphan: Orphan) -> int:
        """The loss is charged, or its policy doesn't want it to run again."""
        evidence = f"its worker is {orphan.verdict}" if orphan.gone else orphan.verdict or "its worker has ended"
        charged = int(orphan.charged)
        if charged:
            evidence += "; it was the only suspect aboard"
        policy = self._tasks.on_lost(orphan.task_type)
        # Not charged, it hasn't died as often as is too often, however often that is.
        decision = on_lost(policy, orphan.lost_count + charged, conf.get("MAX_LOST") + 1 - charged, evidence)
        outcome = self._outcome(orphan.ref, decision, WorkerLost(evidence), charged, orphan.suspicion + 1)
        return self._settle(outcome, orphan.worker)

    def _say(self, moved: Sequence[Moved], jobs: Sequence[Orphan], reason: str) -> None:
        names = queries.named([m.ref.job for m in moved]) if moved else {}
        orphans = {o.ref: o for o in jobs}
        for m in moved:
            events.emit(
                "job.lost",
                **names.get(m.ref.job, {}),
                task_type=orphans[m.ref].task_type,
                source=Status.RUNNING.value,
                worker=str(orphans[m.ref].worker),
                reason=reason,
            )

    # ---- jobs past their deadline, of workers that live -----------------------------------------------------------------

    def _end_overrun(self, term: int) -> int:
        """Its worker should have killed it. A pool that can't kill a run: ``on_stuck`` says what then."""
        with self._session.cursor() as cursor:
            cursor.execute(sql.overrun(clock.now_sql()), [BATCH])
            rows = cursor.fetchall()
        done = 0
        for job, fence, task_type, worker, retry_count, pool, over, allowed in rows:
            said = f"ran past its deadline of {allowed:.0f} s, and its worker did not end it"
            error = HardTimeLimit(said)
            if pool in (None, "prefork"):
                decision = self._tasks.on_failure(task_type, error, retry_count)
            elif self._tasks.on_stuck(task_type) == "restart" and over < conf.get("STOP_GRACE") + conf.get(
                "DEADLINE_GRACE"
            ):
                continue  # its worker starts anew for it, and has that long to
            else:
                reason = f"{said}: a {pool} pool can't. The run may still be at work"
                decision = Decision(Status.PARKED, "held", parked=ParkedReason.REVIEW, reason=reason)
            done += self._settle(self._outcome(Ref(job, fence), decision, error, 0, None), worker)
        return done

    # ---- both -----------------------------------------------------------------------------------------------------------

    def _outcome(
        self, ref: Ref, decision: Decision, error: Exception, charged: int, suspicion: int | None
    ) -> Outcome | None:
        job = Job.objects.using(conf.alias()).filter(seq=ref.job).first()
        if job is None:
            return None  # its row was deleted by hand; doctor finds what is left
        args_repr = self._tasks.args_repr(job.payload)
        return spoken_for(job, ref, decision, error, args_repr=args_repr, charged=charged, suspicion=suspicion)

    def _settle(self, outcome: Outcome | None, worker: uuid.UUID) -> int:
        if outcome is None:
            return 0
        settled = transitions.settle([outcome], worker, redactor(), elsewhere=True, wait=False)
        if settled:
            told([outcome], settled, worker)
        return len(settled)
