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
from celeriac.ledger.locks import SCHEDULER, TERM_LOCK_HELD
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
    """One question in SQL that returns what is wrong (as text, one row each), or in Python."""

    name: str
    what: str
    remedy: str
    sql: str = ""
    python: Callable[[], list[str]] | None = None


_NAME = "j.task_type || ' ' || COALESCE(j.alias, j.task_id::text)"


def _quiet_spool() -> list[str]:
    return [str(path) for path in waiting(conf.spool_dir())]


CHECKS: Final[tuple[Check, ...]] = (
    Check(
        "unfinished-without-live",
        "job without an outcome and without a place",
        "A row was changed by hand, or by a bug: tell us, with `celeriac trace` of one of them.",
        f"SELECT {_NAME} FROM celeriac_job j LEFT JOIN celeriac_live l ON l.job_id = j.seq WHERE j.outcome IS NULL AND l.job_id IS NULL",
    ),
    Check(
        "ended-with-live",
        "job with an outcome that still has a place, or a place without a job",
        "A row was changed by hand, or by a bug: tell us, with `celeriac trace` of one of them.",
        f"SELECT COALESCE({_NAME}, 'seq ' || l.job_id) FROM celeriac_live l LEFT JOIN celeriac_job j ON j.seq = l.job_id "
        "WHERE j.seq IS NULL OR j.outcome IS NOT NULL",
    ),
    Check(
        "running-past-deadline",
        "running job past its deadline",
        "Is a scheduler up? It takes such jobs back within seconds.",
        f"SELECT {_NAME} FROM celeriac_live l JOIN celeriac_job j ON j.seq = l.job_id "
        "WHERE l.status = 'RUNNING' AND l.deadline < {now} - interval '10 seconds'",
    ),
    Check(
        "running-under-a-dead-worker",
        "running job whose worker has ended",
        "Is a scheduler up? It gives such jobs back within seconds.",
        f"SELECT {_NAME} FROM celeriac_live l JOIN celeriac_job j ON j.seq = l.job_id LEFT JOIN celeriac_worker w ON w.id = l.worker "
        "WHERE l.status = 'RUNNING' AND (w.id IS NULL OR w.ended_at < {now} - interval '5 seconds')",
    ),
    Check(
        "dispatched-too-long",
        "dispatched job that should have been sent again",
        "Is a scheduler up, and does the broker answer?",
        f"SELECT {_NAME} FROM celeriac_live l JOIN celeriac_job j ON j.seq = l.job_id WHERE l.status = 'DISPATCHED' AND l.dispatched_at < "
        "{now} - make_interval(secs => LEAST({resend} * power(2, LEAST(l.sent_count, 12) - 1), {resend_max}) + 10)",
    ),
    Check(
        "overdue",
        "job due for over 60 s although a slot is free and nothing holds it",
        "Is a scheduler up, and does the broker answer?",
        f"SELECT {_NAME} FROM celeriac_live l JOIN celeriac_job j ON j.seq = l.job_id WHERE l.status IN ('PENDING', 'RETRY') "
        "AND l.run_at < {now} - interval '60 seconds' "
        "AND NOT EXISTS (SELECT 1 FROM celeriac_control c WHERE c.value = 'false'::jsonb "
        "AND c.key IN ('consume:type:' || l.task_type, 'consume:queue:' || l.queue)) "
        "AND EXISTS (SELECT 1 FROM celeriac_worker w WHERE w.ended_at IS NULL AND w.state = 'alive' AND w.queues ? l.queue "
        "AND w.slots > (SELECT count(*) FROM celeriac_live r WHERE r.status = 'RUNNING' AND r.worker = w.id))",
    ),
    Check(
        "parked-for-nothing",
        "parked job whose reason has gone",
        "Is a scheduler up? It lets such jobs go within seconds.",
        f"SELECT {_NAME} FROM celeriac_live l JOIN celeriac_job j ON j.seq = l.job_id WHERE l.status = 'PARKED' "
        "AND l.since < {now} - interval '10 seconds' AND ((l.parked_reason = 'switch' AND NOT EXISTS "
        "(SELECT 1 FROM celeriac_control c WHERE c.value = 'false'::jsonb AND c.key = 'consume:type:' || l.task_type "
        "UNION ALL SELECT 1 FROM celeriac_control c WHERE c.changed_at > {now} - interval '10 seconds')) "
        "OR (l.parked_reason = 'no handler' AND EXISTS (SELECT 1 FROM celeriac_worker w WHERE w.ended_at IS NULL AND w.queues ? l.queue "
        "AND w.tasks ? l.task_type AND w.started_at < {now} - interval '10 seconds')))",
    ),
    Check(
        "dead-letter-without-letter",
        "job in the dead letters without an open letter",
        "Nobody would see it in the admin: tell us, with `celeriac trace` of one of them.",
        f"SELECT {_NAME} FROM celeriac_job j WHERE j.outcome = 'DEAD_LETTER' "
        "AND NOT EXISTS (SELECT 1 FROM celeriac_deadletter d WHERE d.job_id = j.seq AND d.state = 'open')",
    ),
    Check(
        "letter-without-dead-letter",
        "open dead letter whose job is somewhere else",
        "A decision on it would be refused: tell us, with `celeriac trace` of one of them.",
        "SELECT 'letter ' || d.id FROM celeriac_deadletter d LEFT JOIN celeriac_job j ON j.seq = d.job_id "
        "WHERE d.state = 'open' AND (j.outcome IS DISTINCT FROM 'DEAD_LETTER')",
    ),
    Check(
        "lease-without-lock",
        "scheduler's lease whose holder's session is gone, with jobs waiting",
        "Start a scheduler: `celery -A APP scheduler`.",
        "SELECT l.holder || ', term ' || l.term FROM celeriac_lease l WHERE l.name = 'scheduler' AND l.renewed_at < {now} - interval '5 seconds' "
        "AND NOT {lock} AND EXISTS (SELECT 1 FROM celeriac_live)",
    ),
    Check(
        "no-scheduler-yet",
        "job waits and no scheduler has ever led",
        "Start a scheduler: `celery -A APP scheduler`.",
        "SELECT 'jobs wait' WHERE EXISTS (SELECT 1 FROM celeriac_live) AND NOT EXISTS (SELECT 1 FROM celeriac_lease WHERE term > 0)",
    ),
    Check(
        "quarantine",
        "message in quarantine",
        "Look at it in the admin (quarantined messages), then delete it there.",
        "SELECT q.queue || ': ' || left(q.reason, 120) FROM celeriac_quarantined q",
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
        rows = check.python() if check.python is not None else _ask(check.sql)
        if rows:
            findings.append(Finding(check.name, check.what, check.remedy, len(rows), rows[:EXAMPLES]))
    return findings


def _ask(question: str) -> list[str]:
    values: dict[str, Any] = {
        "now": clock.now_sql(),
        "resend": conf.get("RESEND_AFTER"),
        "resend_max": conf.get("RESEND_AFTER_MAX"),
        "lock": TERM_LOCK_HELD.format(first=SCHEDULER, term="l.term"),
    }
    for name, value in values.items():
        question = question.replace("{" + name + "}", str(value))
    with connections[conf.alias()].cursor() as cursor:
        # No parameters are given, so that the jsonb operator ? is no placeholder.
        cursor.execute(question)
        return [str(row[0]) for row in cursor.fetchall()]
