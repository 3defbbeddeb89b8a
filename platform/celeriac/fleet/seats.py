"""Seats of schedulers: how many stand ready is known without asking them.

Every scheduler process sits in a seat: a lease ``seat-n`` whose advisory lock its session keeps and whose ``renewed_at`` its loop writes. Seats
1 and 2 are kept filled by embedded schedulers: a worker *books* a free seat before it starts a process for it, so that twenty workers that
come up together start two schedulers and not twenty. A booking that nobody sits down on lapses.
"""

from __future__ import annotations

from typing import Final

from django.db.backends.base.base import BaseDatabaseWrapper

from celeriac import clock
from celeriac.ledger.dialects import postgres_fleet as sql
from celeriac.ledger.session import fetch
from celeriac.models.lease import SEAT

#: So many schedulers stand ready: one leads, one takes over.
READY: Final = 2
#: Seconds in which a booked seat is taken, or is free again: a process has to start and to import the project.
BOOKED_FOR: Final = 15.0
_LAST: Final = 1000


def book(holder: str) -> int | None:
    """Book one of the first two seats for a scheduler that *holder* is about to start. ``None``: both are taken."""
    now = clock.now_sql()
    rows = fetch(sql.free_seat(now), [READY])
    if not rows:
        return None
    seat = int(rows[0][0])
    return seat if fetch(sql.book_seat(now), [f"{SEAT}{seat}", holder, BOOKED_FOR]) else None


def give_back(holder: str) -> None:
    """Whoever *holder* booked a seat for will not come."""
    fetch(sql.give_booking_back(clock.now_sql()), [holder])


def silence(holder: str) -> float | None:
    """Seconds since the scheduler that calls itself *holder* has kept its seat; ``None``: it has none."""
    rows = fetch(sql.seat_silence(clock.now_sql()), [holder])
    return float(rows[0][0]) if rows else None


class Seat:
    """The place of one scheduler process, on its *session*. A session that is made anew has to sit down again."""

    def __init__(self, session: BaseDatabaseWrapper, holder: str, wanted: int | None = None) -> None:
        self._session = session
        self._holder = holder
        self._wanted = wanted
        self.number: int | None = None

    def keep(self) -> bool:
        """Sit down where there is a place, and say that our loop goes round. ``False``: the seat that was booked for us is taken."""
        if self.number is None:
            self.number = self._sit_down()
        if self.number is None:
            return False
        with self._session.cursor() as cursor:
            cursor.execute(sql.keep_seat(clock.now_sql()), [f"{SEAT}{self.number}", self._holder])
        return True

    def leave(self) -> None:
        """Free it."""
        if self.number is not None:
            with self._session.cursor() as cursor:
                cursor.execute(sql.FREE_SEAT, [self.number])
            self.number = None

    def session_is_new(self) -> None:
        """The lock went with the session."""
        self.number = None

    def _sit_down(self) -> int | None:
        # An embedded scheduler sits where it was booked, or in the other of the first two; one that was started by hand sits anywhere.
        last = _LAST if self._wanted is None else READY
        seats = [n for n in range(1, last + 1) if n != self._wanted]
        if self._wanted is not None:
            seats.insert(0, self._wanted)
        with self._session.cursor() as cursor:
            for seat in seats:
                cursor.execute(sql.TAKE_SEAT, [seat])
                if cursor.fetchone()[0]:
                    return seat
        return None
