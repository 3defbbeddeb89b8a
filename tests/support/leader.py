"""Who leads, seen from outside: its term, its process, its session."""

from __future__ import annotations

from django.db import connection

from celeriac.ledger.dialects.postgres_fleet import SCHEDULER
from celeriac.models import Lease
from tests.support.waiting import wait_until

LEADER = "scheduler"
SEAT = "seat-"
_SESSION = (
    "SELECT a.pid, extract(epoch FROM clock_timestamp() - a.backend_start)::float8 FROM pg_locks k JOIN pg_stat_activity a ON a.pid = k.pid "
    "WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 2 AND k.classid = %s::bigint::oid AND k.objid = %s::bigint::oid "
    "AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def term() -> int:
    """The term that is written; 0 before the first."""
    found = Lease.objects.filter(name=LEADER).values_list("term", flat=True).first()
    return int(found or 0)


def pid() -> int:
    """The process that leads, by what it wrote of itself."""
    return int(Lease.objects.get(name=LEADER).holder.rpartition(":")[2])


def seats() -> dict[str, int]:
    """Which processes stand ready: seat by name → process."""
    held = Lease.objects.filter(name__startswith=SEAT).exclude(holder="").values_list("name", "holder")
    return {name: int(holder.rpartition(":")[2]) for name, holder in held}


def session() -> tuple[int, float] | None:
    """The server process that serves the leader, and its age in seconds; ``None`` while nobody leads."""
    with connection.cursor() as cursor:
        cursor.execute(_SESSION, [SCHEDULER, term()])
        found = cursor.fetchone()
    return (int(found[0]), float(found[1])) if found else None


def wait_for(new_term: int) -> None:
    """Return when somebody leads in *new_term* or later."""
    wait_until(
        lambda: term() >= new_term and session() is not None, what=f"somebody leads in term {new_term}", every=0.01
    )


def wait_until_it_judges(settle_in: float = 5.0) -> None:
    """Return when a leader's evidence is old enough for verdicts: faults of earlier moments are found later, by design."""
    wait_until(lambda: (session() or (0, 0.0))[1] > settle_in + 0.5, every=0.1, what="the leader judges")


def cut() -> None:
    """End the leader's session; the process lives on."""
    found = session()
    assert found is not None
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [found[0]])
