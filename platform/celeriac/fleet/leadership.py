"""Who leads: one scheduler at a time, by a lease with terms, and a lock per term as witness.

States: standby → leading (term n) → standby. The database's clock decides; the scheduler's own is never compared.

* Leading: the lease is renewed in every pass; every statement that writes carries the term. A renewal that finds another term means
  that we were replaced: we stop at once.
* Standby: looks twice a second. The lock of the written term free: its holder's session is gone, take over at once. The lock held but
  the lease not renewed for ``LEASE_SECONDS``: its holder is stopped or cut off, take over too.
* Taking over is one statement: the lease moves to the next term if it still is what we read, and the new term's lock is taken in the same
  statement, so that nobody ever sees the new term without its lock.

Weakness: a stopped leader that wakes up may still send messages that it staged before; they carry fences and can claim only once. It can
write nothing: its term is old.
"""

from __future__ import annotations

import time

from django.db.backends.base.base import BaseDatabaseWrapper

from celeriac import clock, conf, events
from celeriac.ledger.dialects import postgres_fleet as sql

LOOK_EVERY = 0.5


class Leadership:
    """The scheduler's place in the line. Uses *session* for both lease and lock; *holder* is what operators read."""

    def __init__(self, session: BaseDatabaseWrapper, holder: str) -> None:
        self._session = session
        self._holder = holder
        self._term: int | None = None
        self._looked = 0.0
        self._said_standby = False

    @property
    def term(self) -> int | None:
        """Our term while leading, else ``None``."""
        return self._term

    def hold(self) -> int | None:
        """Renew or try to take over, at most twice a second. Returns the term while leading.

        Raises ``django.db.DatabaseError`` when the database is away: we don't lead then, as far as we know.
        """
        if time.monotonic() - self._looked < LOOK_EVERY:
            return self._term
        self._looked = time.monotonic()
        try:
            self._term = self._renew() if self._term is not None else self._take_over()
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
        with self._session.cursor() as cursor:
            cursor.execute(sql.renew_lease(clock.now_sql()), [self._term])
            row = cursor.fetchone()
        if row is None:
            events.emit("scheduler.standby", reason="another scheduler took over", worker=self._holder)
            return None
        return self._term

    def _take_over(self) -> int | None:
        now = clock.now_sql()
        with self._session.cursor() as cursor:
            cursor.execute(sql.look_at_lease(now))
            row = cursor.fetchone()
            if row is None:
                cursor.execute(sql.create_lease(now))
                return None
            term, lock_held, age = row
            if lock_held and age < conf.get("LEASE_SECONDS"):
                if not self._said_standby:
                    events.emit(
                        "scheduler.standby", reason=f"term {term} is led by another scheduler", worker=self._holder
                    )
                    self._said_standby = True
                return None
            cursor.execute(sql.take_lease(now), [self._holder, term])
            row = cursor.fetchone()
        if row is None:
            return None
        self._said_standby = False
        why = "its holder had not renewed it" if lock_held else "nobody held it"
        events.emit("scheduler.leading", reason=f"term {row[0]}: {why}", worker=self._holder)
        return int(row[0])
