"""Who leads: one scheduler at a time, by a lease with terms, and a lock per term as witness.

States: standby → leading (term n) → standby. The database's clock decides; the scheduler's own is never compared.

* Leading: the lease is renewed in every pass; every statement that writes carries the term. A renewal that finds another term means
  that we were replaced: we stop at once.
* Standby: looks twice a second. The lock of the written term free: its holder's session is gone, take over at once. The lock held but
  the lease not renewed for ``LEASE_SECONDS``: its holder is stopped or cut off, take over too.
* Nobody takes over on a look that was late itself, nor while the database's clock was just set: everybody's lease looks old then.
* Whoever finds that the lease rested for a while gives running jobs that time back: nobody could settle in it, so no deadline counts it.
* Taking over is one statement: the lease moves to the next term if it still is what we read, and the new term's lock is taken in the same
  statement, so that nobody ever sees the new term without its lock.

Weakness: a stopped leader that wakes up may still send messages that it staged before; they carry fences and can claim only once. It can
write nothing: its term is old.
"""

from __future__ import annotations

import time
from typing import Any, Final

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from celeriac import clock, conf, events
from celeriac.fleet.server_clock import ServerClock
from celeriac.ledger.dialects import postgres_fleet as sql

LOOK_EVERY: Final = 0.5
#: A lease that was not renewed for so many seconds rested.
RESTED: Final = 2.0


class Leadership:
    """The scheduler's place in the line. Uses *session* for both lease and lock; *holder* is what operators read; *server* is told the time."""

    def __init__(self, session: BaseDatabaseWrapper, holder: str, server: ServerClock) -> None:
        self._session = session
        self._server = server
        self._holder = holder
        self._term: int | None = None
        self._looked = float("-inf")
        self._said_standby = False

    @property
    def term(self) -> int | None:
        """Our term while leading, else ``None``."""
        return self._term

    def hold(self) -> int | None:
        """Renew or try to take over, at most twice a second. Returns the term while leading.

        Raises ``django.db.DatabaseError`` when the database is away: we don't lead then, as far as we know.
        """
        now = time.monotonic()
        pause, self._looked = now - self._looked, now
        if pause < LOOK_EVERY:
            self._looked -= pause
            return self._term
        try:
            self._term = self._renew() if self._term is not None else self._take_over(late=pause > LOOK_EVERY + 1.0)
        except Exception:
            self._term = None
            raise
        return self._term

    def step_down(self) -> None:
        """Free the lock so that the standby takes over at once."""
        if self._term is None:
            return
        with self._session.cursor() as cursor:
            cursor.execute(sql.FREE_TERM_LOCK, [self._term])
        self._term = None

    def _renew(self) -> int | None:
        # One transaction: a leader that dies between the two would take the evidence of the pause with it.
        with transaction.atomic(using=self._session.alias), self._session.cursor() as cursor:
            asked = time.monotonic()
            cursor.execute(sql.renew_lease(clock.now_sql()), [self._term])
            row = cursor.fetchone()
            if row is not None:
                self._server.saw(asked, row[1])
                self._give_time_back(cursor, row[0])
        if row is None:
            events.emit("scheduler.standby", reason="another scheduler took over", worker=self._holder)
            return None
        return self._term

    def _give_time_back(self, cursor: Any, rested: float) -> None:
        if rested > RESTED:
            cursor.execute(sql.extend_deadlines(clock.now_sql()), [rested])
            if cursor.rowcount:
                events.emit(
                    "scheduler.deadlines_extended",
                    worker=self._holder,
                    cost_ms=round(rested * 1000),
                    reason=f"{cursor.rowcount} running job(s): nobody led for {rested:.1f} s",
                )

    def _take_over(self, *, late: bool) -> int | None:
        now = clock.now_sql()
        with self._session.cursor() as cursor:
            asked = time.monotonic()
            cursor.execute(sql.look_at_lease(now))
            row = cursor.fetchone()
            if row is None:
                cursor.execute(sql.create_lease(now))
                return None
            term, lock_held, age, told = row
            self._server.saw(asked, told)
            late |= self._server.stepped_within(conf.get("LEASE_SECONDS"))
            if lock_held and (late or age < conf.get("LEASE_SECONDS")):
                if not self._said_standby:
                    events.emit(
                        "scheduler.standby", reason=f"term {term} is led by another scheduler", worker=self._holder
                    )
                    self._said_standby = True
                return None
            cursor.execute(sql.take_lease(now), [self._holder, term])
            row = cursor.fetchone()
            if row is not None and term:
                self._give_time_back(cursor, age)
        if row is None:
            return None
        self._said_standby = False
        why = "its holder had not renewed it" if lock_held else "nobody held it"
        events.emit("scheduler.leading", reason=f"term {row[0]}: {why}", worker=self._holder)
        return int(row[0])
