"""Doctor's questions for PostgreSQL: each returns what is wrong, as text, one row each.

``{now}``, ``{resend}`` and ``{resend_max}`` are put in by doctor. No parameters are bound, so that the jsonb operator ``?`` is no placeholder.
"""

from __future__ import annotations

from typing import Final

from celeriac.ledger.dialects.postgres_fleet import TERM_LOCK_HELD, WITNESS

_NAME: Final = "j.task_type || ' ' || COALESCE(j.alias, j.task_id::text)"
_LIVE: Final = f"SELECT {_NAME} FROM celeriac_live l JOIN celeriac_job j ON j.seq = l.job_id"

QUESTIONS: Final[dict[str, str]] = {
    "unfinished-without-live": (
        "SELECT "
        + _NAME
        + (
            " FROM celeriac_job j LEFT JOIN celeriac_live l ON l.job_id = j.seq WHERE j.outcome IS NULL AND "
            "l.job_id IS NULL"
        )
    ),
    "ended-with-live": (
        "SELECT COALESCE("
        + _NAME
        + (
            ", 'seq ' || l.job_id) FROM celeriac_live l LEFT JOIN celeriac_job j ON j.seq = l.job_id WHERE j.seq "
            "IS NULL OR j.outcome IS NOT NULL"
        )
    ),
    "running-past-deadline": (_LIVE + " WHERE l.status = 'RUNNING' AND l.deadline < {now} - interval '10 seconds'"),
    "running-under-a-dead-worker": (
        _LIVE
        + (
            " LEFT JOIN celeriac_worker w ON w.id = l.worker WHERE l.status = 'RUNNING' AND (w.id IS NULL OR "
            "w.ended_at < {now} - interval '5 seconds')"
        )
    ),
    # A worker takes its lock a moment before its row says so: sessions that have just begun are left out.
    "lock-without-incarnation": (
        "SELECT 'lock ' || k.objid || ' of server process ' || k.pid || COALESCE(', ' || host(a.client_addr), '') FROM pg_locks k LEFT JOIN "
        "pg_stat_activity a ON a.pid = k.pid WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 2 AND k.database = (SELECT "
        f"oid FROM pg_database WHERE datname = current_database()) AND k.classid = {WITNESS}::bigint::oid AND COALESCE("
        "a.backend_start, '-infinity') < {now} - interval '10 seconds' AND NOT EXISTS (SELECT 1 FROM celeriac_worker w WHERE "
        "(w.lock_key & 4294967295)::oid = k.objid AND (w.ended_at IS NULL OR w.ended_at > {now} - interval '10 seconds'))"
    ),
    "worker-without-witness": (
        "SELECT w.hostname || ' ' || w.id FROM celeriac_worker w WHERE w.ended_at IS NULL AND NOT w.witnessed"
    ),
    "two-live-claims": (
        "SELECT w.hostname || ', process ' || COALESCE(l.child_pid, 0) || ': ' || string_agg("
        + _NAME
        + (
            ", ', ' ORDER BY l.claimed_at) FROM celeriac_live l JOIN celeriac_job j ON j.seq = l.job_id JOIN celeriac_worker w ON w.id = "
            "l.worker WHERE l.status = 'RUNNING' AND w.pool = 'prefork' AND w.ended_at IS NULL GROUP BY w.id, l.child_pid HAVING count(*) "
            "> 1 AND max(l.claimed_at) < {now} - interval '10 seconds'"
        )
    ),
    "nobody-consumes": (
        _LIVE
        + (
            " WHERE l.status IN ('PENDING', 'RETRY', 'DISPATCHED') AND l.run_at < {now} - interval '60 seconds' AND l.since < {now} - "
            "interval '60 seconds' AND NOT EXISTS (SELECT 1 FROM celeriac_control c WHERE c.value = 'false'::jsonb AND c.key IN "
            "('consume:type:' || l.task_type, 'consume:queue:' || l.queue)) AND NOT EXISTS (SELECT 1 FROM celeriac_worker w WHERE "
            "w.ended_at IS NULL AND w.state = 'alive' AND w.queues ? l.queue)"
        )
    ),
    "dispatched-too-long": (
        _LIVE
        + (
            " WHERE l.status = 'DISPATCHED' AND l.dispatched_at < {now} - make_interval(secs => LEAST({resend} * "
            "power(2, LEAST(l.sent_count, 12) - 1), {resend_max}) + 10)"
        )
    ),
    "overdue": (
        _LIVE
        + (
            " WHERE l.status IN ('PENDING', 'RETRY') AND l.run_at < {now} - interval '60 seconds' AND l.since < "
            "{now} - interval '60 seconds' AND NOT EXISTS (SELECT 1 FROM celeriac_control c WHERE c.value = "
            "'false'::jsonb AND c.key IN ('consume:type:' || l.task_type, 'consume:queue:' || l.queue)) AND "
            "EXISTS (SELECT 1 FROM celeriac_worker w WHERE w.ended_at IS NULL AND w.state = 'alive' AND w.queues "
            "? l.queue AND w.slots > (SELECT count(*) FROM celeriac_live r WHERE r.status = 'RUNNING' AND "
            # A suspect has reason to wait while each worker has another one aboard (dispatch.suspects).
            "r.worker = w.id) AND (l.suspicion = 0 OR NOT EXISTS (SELECT 1 FROM celeriac_live s WHERE s.worker = w.id AND "
            "s.suspicion >= CASE WHEN l.suspicion >= 2 THEN 1 ELSE 2 END)))"
        )
    ),
    "parked-for-nothing": (
        _LIVE
        + (
            " WHERE l.status = 'PARKED' AND l.since < {now} - interval '10 seconds' AND ((l.parked_reason = "
            "'switch' AND NOT EXISTS (SELECT 1 FROM celeriac_control c WHERE c.value = 'false'::jsonb AND c.key ="
            " 'consume:type:' || l.task_type UNION ALL SELECT 1 FROM celeriac_control c WHERE c.changed_at > "
            "{now} - interval '10 seconds')) OR (l.parked_reason = 'no handler' AND EXISTS (SELECT 1 FROM "
            "celeriac_worker w WHERE w.ended_at IS NULL AND w.queues ? l.queue AND w.tasks ? l.task_type AND "
            "w.started_at < {now} - interval '10 seconds')))"
        )
    ),
    "dead-letter-without-letter": (
        "SELECT "
        + _NAME
        + (
            " FROM celeriac_job j WHERE j.outcome = 'DEAD_LETTER' AND NOT EXISTS (SELECT 1 FROM "
            "celeriac_deadletter d WHERE d.job_id = j.seq AND d.state = 'open')"
        )
    ),
    "letter-without-dead-letter": (
        "SELECT 'letter ' || d.id FROM celeriac_deadletter d LEFT JOIN celeriac_job j ON j.seq = d.job_id "
        "WHERE d.state = 'open' AND (j.outcome IS DISTINCT FROM 'DEAD_LETTER')"
    ),
    "lease-without-lock": (
        (
            "SELECT l.holder || ', term ' || l.term FROM celeriac_lease l WHERE l.name = 'scheduler' AND "
            "l.renewed_at < {now} - interval '5 seconds' AND NOT "
        )
        + TERM_LOCK_HELD
        + " AND EXISTS (SELECT 1 FROM celeriac_live)"
    ),
    "no-scheduler-yet": (
        "SELECT 'jobs wait' WHERE EXISTS (SELECT 1 FROM celeriac_live) AND NOT EXISTS (SELECT 1 FROM "
        "celeriac_lease WHERE term > 0)"
    ),
    "quarantine": ("SELECT q.queue || ': ' || left(q.reason, 120) FROM celeriac_quarantined q"),
}
