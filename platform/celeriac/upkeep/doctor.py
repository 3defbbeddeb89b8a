"""Checks that no job dangles: each unfinished job has an owner and a next event. Reads only.

``CHECKS`` is the table; ``docs/reference/doctor.md`` is tied to it by a test. A check that looks at something that moves gives it a grace of a
few passes, so that a healthy platform under load is clean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import connections

from celeriac import clock, conf
from celeriac.ledger.dialects.postgres_doctor import QUESTIONS
from celeriac.settle.spool import waiting

EXAMPLES: Final = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that shouldn't be: which check, how many, a few examples, what to do."""

    check: str
    what: str
    remedy: str
    count: int
    examples: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Check:
    """One question: in SQL under its name (``ledger.dialects``), or in Python. Either returns what is wrong, as text."""

    name: str
    what: str
    remedy: str
    python: Callable[[], list[str]] | None = None


def _quiet_spool() -> list[str]:
    return [str(path) for path in waiting(conf.spool_dir())]


CHECKS: Final[tuple[Check, ...]] = (
    Check(
        "unfinished-without-live",
        "job without an outcome and without a place",
        "A row was changed by hand, or by a bug: tell us, with `celeriac trace` of one of them.",
    ),
    Check(
        "ended-with-live",
        "job with an outcome that still has a place, or a place without a job",
        "A row was changed by hand, or by a bug: tell us, with `celeriac trace` of one of them.",
    ),
    Check(
        "running-past-deadline",
        "running job past its deadline",
        "Is a scheduler up? It takes such jobs back within seconds.",
    ),
    Check(
        "running-under-a-dead-worker",
        "running job whose worker has ended",
        "Is a scheduler up? It gives such jobs back within seconds.",
    ),
    Check(
        "lock-without-incarnation",
        "witness lock that no living worker owns",
        "A process still holds the database session of a worker that has ended: find it by the server process in `pg_stat_activity`, end it.",
    ),
    Check(
        "worker-without-witness",
        "live worker without a session of its own: a proxy pools transactions, and only its beats say that it lives",
        "Give the ledger a direct connection to PostgreSQL; until then a dead worker's jobs wait for `STALL_AFTER`.",
    ),
    Check(
        "two-live-claims",
        "pool process that has two jobs at once",
        "Is a spool waiting there (`spool`)? If not: tell us, with `celeriac trace` of both; to free them, stop that worker.",
    ),
    Check(
        "dispatched-too-long",
        "dispatched job that should have been sent again",
        "Is a scheduler up, and does the broker answer?",
    ),
    Check(
        "overdue",
        "job due for over 60 s although a slot is free and nothing holds it",
        "Is a scheduler up, and does the broker answer?",
    ),
    Check(
        "nobody-consumes",
        "job due for over 60 s in a queue that no worker consumes and that isn't switched off",
        "Start a worker for the queue (`celery -A APP worker -Q QUEUE`). One is there? `celeriac workers` says why it doesn't consume.",
    ),
    Check(
        "parked-for-nothing",
        "parked job whose reason has gone",
        "Is a scheduler up? It lets such jobs go within seconds.",
    ),
    Check(
        "dead-letter-without-letter",
        "job in the dead letters without an open letter",
        "Nobody would see it in the admin: tell us, with `celeriac trace` of one of them.",
    ),
    Check(
        "letter-without-dead-letter",
        "open dead letter whose job is somewhere else",
        "A decision on it would be refused: tell us, with `celeriac trace` of one of them.",
    ),
    Check(
        "lease-without-lock",
        "scheduler's lease whose holder's session is gone, with jobs waiting",
        "Start a scheduler: `celery -A APP scheduler`.",
    ),
    Check(
        "no-scheduler-yet", "job waits and no scheduler has ever led", "Start a scheduler: `celery -A APP scheduler`."
    ),
    Check(
        "quarantine", "message in quarantine", "Look at it in the admin (quarantined messages), then delete it there."
    ),
    Check(
        "spool",
        "spool file with outcomes that the ledger hasn't got",
        "Start a worker on this host: it replays them.",
        python=_quiet_spool,
    ),
)


def examine() -> list[Finding]:
    """Run all checks. An empty list is a clean bill."""
    findings = []
    for check in CHECKS:
        rows = check.python() if check.python is not None else _ask(QUESTIONS[check.name])
        if rows:
            findings.append(Finding(check.name, check.what, check.remedy, len(rows), rows[:EXAMPLES]))
    return findings


def _ask(question: str) -> list[str]:
    values: dict[str, Any] = {
        "now": clock.now_sql(),
        "resend": conf.get("RESEND_AFTER"),
        "resend_max": conf.get("RESEND_AFTER_MAX"),
    }
    for name, value in values.items():
        question = question.replace("{" + name + "}", str(value))
    with connections[conf.alias()].cursor() as cursor:
        # No parameters are given, so that the jsonb operator ? is no placeholder.
        cursor.execute(question)
        return [str(row[0]) for row in cursor.fetchall()]
