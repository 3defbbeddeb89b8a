"""Judges incarnations by two witnesses, and gives the jobs of the dead back. Both are standing queries of the leading scheduler.

Gone: the lock is free *and* no beat for ``GONE_AFTER``. Stalled: the lock is held, no beat for ``STALL_AFTER``. A free lock alone is no proof:
``pg_terminate_backend`` and a proxy's restart free it too, and the worker is back within 200 ms.
Nobody is judged while the evidence is young: the database or our own session younger than ``SETTLE_IN``, or our own pass late.
More than half of the fleet late together points at us or the database: the verdict waits three times ``STALL_AFTER``.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper

from celeriac import clock, conf, events
from celeriac.ledger import queries, transitions
from celeriac.ledger.dialects import postgres_fleet as sql
from celeriac.ledger.rows import Why
from celeriac.ledger.transitions import RESCUED
from celeriac.models import Live
from celeriac.outcomes import Ref
from celeriac.states import ParkedReason, Status

LOOK_EVERY = 0.5
BATCH = 500


@dataclass(frozen=True, slots=True)
class Reading:
    """Both witnesses on one incarnation."""

    id: uuid.UUID
    hostname: str
    silent: float
    lock_held: bool
    witnessed: bool


def verdict(reading: Reading, fleet_late: bool) -> str | None:
    """Why an incarnation is given up, ``None`` while it isn't. Pure."""
    stall_after = conf.get("STALL_AFTER") * (3 if fleet_late else 1)
    if reading.witnessed and not reading.lock_held and not fleet_late and reading.silent >= conf.get("GONE_AFTER"):
        return f"gone: its lock is free and its last beat was {reading.silent:.1f} s ago"
    if reading.silent >= stall_after:
        held = "held" if reading.lock_held else "free"
        return f"stalled: no beat for {reading.silent:.1f} s, its lock is {held}"
    return None


class Rescue:
    """Looks twice a second on the leader's *session*; *on_lost* tells the policy of a task type."""

    def __init__(self, session: BaseDatabaseWrapper, on_lost: Callable[[str], str]) -> None:
        self._session = session
        self._on_lost = on_lost
        self._looked = 0.0
        self._session_since = time.monotonic()

    def session_is_new(self) -> None:
        """The session was made anew: its evidence is young."""
        self._session_since = time.monotonic()

    def look(self, term: int) -> int:
        """Judge and rescue if it is time to. Returns how many jobs were given back."""
        now = time.monotonic()
        pause = now - self._looked
        if pause < LOOK_EVERY:
            return 0
        self._looked = now
        late = pause > LOOK_EVERY + 1.0
        young = late or now - self._session_since < conf.get("SETTLE_IN")
        if not young:
            self._judge(term)
        return self._give_back(term, deadlines=not young)

    def _judge(self, term: int) -> None:
        now = clock.now_sql()
        with self._session.cursor() as cursor:
            cursor.execute(sql.readings(now), [conf.get("SETTLE_IN")])
            readings = [Reading(row[0], row[1], float(row[2]), row[3], row[4]) for row in cursor.fetchall()]
            silent = sum(r.silent >= conf.get("GONE_AFTER") and r.lock_held for r in readings)
            fleet_late = len(readings) > 2 and silent * 2 > len(readings)
            for reading in readings:
                why = verdict(reading, fleet_late)
                if why is None:
                    continue
                cursor.execute(sql.give_up(now), [why, reading.id, reading.silent * 0.9, term])
                if cursor.fetchone():
                    events.emit("worker.gone", worker=str(reading.id), reason=f"{reading.hostname}: {why}")

    def _give_back(self, term: int, *, deadlines: bool) -> int:
        """RUNNING jobs of incarnations that have ended, in batches: they are next to start. Nobody is charged: who did it isn't known."""
        with self._session.cursor() as cursor:
            cursor.execute(sql.ORPHANS, [BATCH])
            rows = cursor.fetchall()
            if deadlines:
                cursor.execute(sql.overrun(clock.now_sql()), [BATCH])
                rows += cursor.fetchall()
        done = 0
        for job, fence, task_type, worker, why in rows:
            done += self._one(Ref(job, fence), task_type, worker, why or "its worker has ended", term)
        return done

    def _one(self, ref: Ref, task_type: str, worker: uuid.UUID, why: str, term: int) -> int:
        policy = self._on_lost(task_type)
        reason = Why(f"scheduler, term {term}", why, worker)
        if policy == "fail":
            moved = transitions.finish("failed", [ref], reason)
        elif policy == "review":
            moved = transitions.shift("held", [ref], reason, parked=ParkedReason.REVIEW)
        else:
            moved = transitions.shift("handed_back", [ref], reason, priority=RESCUED)
        names = queries.named([m.ref.job for m in moved]) if moved else {}
        for m in moved:
            events.emit(
                "job.lost",
                **names.get(m.ref.job, {}),
                task_type=task_type,
                source=Status.RUNNING.value,
                worker=str(worker),
                reason=why,
            )
        return len(moved)


def unfinished_of(worker: uuid.UUID) -> list[Ref]:
    """What the ledger says that *worker* runs."""
    rows = Live.objects.using(conf.alias()).running().filter(worker=worker).values_list("job_id", "fence")
    return [Ref(job, fence) for job, fence in rows]
